package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A gang", func() {
	It("that fits is bound as a whole and runs", func(ctx SpecContext) {
		w := newWorld(ctx, "happy", 2, "2")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 4, min: 4}
		w.submit(ctx, g)
		w.eventuallyBound(g, 4)
		w.eventuallyRunning(g)
		w.expectStagedAtomically(g, "first", "second")
		w.expectNoLeaks(ctx, "first", "second")
		for _, pod := range g.pods() {
			Expect(w.journalOf(pod)).To(Equal([]string{"prebind first", "prebind second"}))
		}
	})
})
