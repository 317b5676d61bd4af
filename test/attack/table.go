// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// attack is a tenant's attempt to harm others.
type attack struct {
	name string
	// does states what the tenant does, and harm why that could hurt others.
	does, harm string
	// run prepares the attack and continues it until the context ends. The tenant counts rejected calls. An error
	// means that the attack could not be carried out.
	run func(ctx context.Context, t *tenant) error
	// restarts reports whether the scheduler is killed and restarted once the attack has begun. The victim's gangs
	// are submitted after that.
	restarts bool
	// after, if not nil, returns lasting effects of the attack that no general check finds.
	after func(ctx context.Context, s *testbed) []string
	// breaks is used by breakages only, in place of run: it uses an administrator's rights. finds is text of the
	// fault that it must cause.
	breaks func(ctx context.Context, s *testbed) error
	finds  string
}

// table returns the attacks: on reservations for gangs, on evictions, by API churn, with forged objects, with claims
// and devices, by size, and through controllers.
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
