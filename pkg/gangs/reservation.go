// SPDX-License-Identifier: Apache-2.0

package gangs

// ReservationObserver is notified of node reservations, for metrics. Its methods must not block.
type ReservationObserver interface {
	// ReservationEnded reports how a node reservation ended.
	ReservationEnded(how ReservationEnd)
	// Reservations reports how many node reservations exist.
	Reservations(now int)
}

// ReservationEnd is the reason why a node reservation for a waiting gang ended.
type ReservationEnd string

// The reasons why a node reservation ends. After all of them but ReservationPlaced and ReservationOff, the gang's queue and
// namespace get no reservation for some time.
const (
	// ReservationPlaced means that members that waited for the reserved nodes have been bound, and that they reach the
	// minimum.
	ReservationPlaced ReservationEnd = "placed"
	// ReservationExpired means that the nodes did not drain in time, or that the gang was not placed on the drained
	// nodes.
	ReservationExpired ReservationEnd = "expired"
	// ReservationGone means that the gang, or a member that its minimum needs, no longer exists, that the gang is in
	// another queue, or that its bound members are others than the ones that waited for the reserved nodes.
	ReservationGone ReservationEnd = "gang_deleted"
	// ReservationLost means that a reserved node was lost or the gang was changed, and that no other nodes can hold the
	// gang.
	ReservationLost ReservationEnd = "nodes_lost"
	// ReservationRefused means that the queue does not admit the gang.
	ReservationRefused ReservationEnd = "not_admitted"
	// ReservationOff means that the configuration no longer reserves nodes.
	ReservationOff ReservationEnd = "disabled"
)

// ReservationEnds lists all ends of a reservation.
var ReservationEnds = []ReservationEnd{
	ReservationPlaced, ReservationExpired, ReservationGone, ReservationLost, ReservationRefused, ReservationOff,
}
