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

// The reasons why a node reservation ends. For some time after its end, the gang's queue and namespace get no other
// reservation, except after ReservationPlaced and ReservationOff.
const (
	// ReservationPlaced means that members that waited for the reserved nodes have been bound, and that they reach the
	// gang's minimum.
	ReservationPlaced ReservationEnd = "placed"
	// ReservationExpired means that the nodes did not drain in time, or that the gang was not placed on the drained
	// nodes.
	ReservationExpired ReservationEnd = "expired"
	// ReservationBelowMinimum means that members of the gang are bound, but too few of them waited for the reserved nodes to
	// reach the minimum. The others were created on a node, or Bindings were rejected.
	ReservationBelowMinimum ReservationEnd = "below_minimum"
	// ReservationGone means that the gang, or a member that its minimum needs, no longer exists, or that the gang is in
	// another queue.
	ReservationGone ReservationEnd = "gang_deleted"
	// ReservationLost means that a reserved node was lost or the gang was changed, and that the gang fits no other
	// nodes.
	ReservationLost ReservationEnd = "nodes_lost"
	// ReservationRefused means that the queue does not admit the gang.
	ReservationRefused ReservationEnd = "not_admitted"
	// ReservationOff means that node reservations were disabled in the configuration.
	ReservationOff ReservationEnd = "disabled"
)

// ReservationEnds lists all reasons why a node reservation ends.
var ReservationEnds = []ReservationEnd{
	ReservationPlaced, ReservationBelowMinimum, ReservationExpired, ReservationGone, ReservationLost, ReservationRefused, ReservationOff,
}
