// SPDX-License-Identifier: Apache-2.0

package gangs

// ReservationObserver is notified of node reservations, for metrics. Its methods must not block.
type ReservationObserver interface {
	// ReservationEnded reports how a node reservation ended.
	ReservationEnded(how ReservationEnd)
	// Reservations reports how many node reservations exist.
	Reservations(now int)
}

// ReservationEnd says how a node reservation for a starving gang ended.
type ReservationEnd string

// The ends of a reservation. All but ReservationPlaced and ReservationOff have the gang's queue and namespace pause.
const (
	// ReservationPlaced: a member of the gang has a node.
	ReservationPlaced ReservationEnd = "placed"
	// ReservationExpired: the nodes did not drain in time, or the gang was not placed on the drained ones.
	ReservationExpired ReservationEnd = "expired"
	// ReservationGone: the gang, or a member that its minimum needs, no longer exists, or it is in another queue.
	ReservationGone ReservationEnd = "gang_deleted"
	// ReservationLost: a node was lost or the gang was changed, and no other nodes can hold it.
	ReservationLost ReservationEnd = "nodes_lost"
	// ReservationRefused: the queue does not admit the gang.
	ReservationRefused ReservationEnd = "not_admitted"
	// ReservationOff: the configuration no longer reserves nodes.
	ReservationOff ReservationEnd = "disabled"
)

// ReservationEnds lists all ends of a reservation.
var ReservationEnds = []ReservationEnd{
	ReservationPlaced, ReservationExpired, ReservationGone, ReservationLost, ReservationRefused, ReservationOff,
}
