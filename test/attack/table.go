// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// attack is what a tenant does to harm others.
type attack struct {
	name string
	// does says what the tenant does, harm why that could hurt others.
	does, harm string
	// run prepares the attack and keeps it up until the context ends. Refused calls are counted by the tenant; an error means
	// that the attack could not be carried out.
	run func(ctx context.Context, t *tenant) error
	// restarts reports whether the scheduler is killed and started again once the attack has begun. The victim's gangs come after that.
	restarts bool
	// after, when not nil, returns what the attack left behind that no general check finds.
	after func(ctx context.Context, s *stage) []string
	// breaks, in breakages alone, replaces run: an administrator's hand on the stage. finds is text of the fault that is due to it.
	breaks func(ctx context.Context, s *stage) error
	finds  string
}

// table returns the attacks: those on what is reserved for gangs, on evictions, by API churn, with forged objects, with claims and
// devices, by size, and through controllers.
func table() []attack {
	return slices.Concat(reservations(), evictions(), churn(), forgeries(), claims(), devices(), bulk(), orders())
}

// list prints the table.
func list(out io.Writer, attacks []attack, markdown bool) {
	if !markdown {
		for _, a := range attacks {
			fmt.Fprintf(out, "%-24s %s\n%-24s could hurt: %s\n", a.name, a.does, "", a.harm)
		}
		return
	}
	fmt.Fprintln(out, "| Attack | What the tenant does | How it could hurt others |\n|---|---|---|")
	for _, a := range attacks {
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", a.name, a.does, a.harm)
	}
}
