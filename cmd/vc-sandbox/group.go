// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// asGroup shows two gangs in one group: a trainer and its parameter servers. The trainer waits until the parameter
// servers exist. While the pre-bind steps of the parameter servers fail, no pod of the trainer is bound. When the steps
// succeed, both gangs are bound.
func (s *story) asGroup(ctx context.Context) error {
	here, there := s.clusters[0], s.clusters[2]
	trainer, servers := newGang("trainer", here), newGang("ps", there)
	trainer.members, servers.members = 4, 2
	for _, g := range []*gang{&trainer, &servers} {
		g.asks, g.group = corev1.ResourceList{}, []string{trainer.name, servers.name}
	}
	s.say("%s: %d pods in %s, and %s: %d pods in %s, are one group; all nodes of %s have the label quarantine=xid-79",
		trainer.name, trainer.members, here.name, servers.name, servers.members, there.name, there.name)
	for _, node := range there.nodes {
		if err := s.quarantine(ctx, node.Name, "xid-79"); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := s.submit(ctx, trainer); err != nil {
		return err
	}
	why := ""
	if _, err := s.view.await(ctx, began, "the trainer waits for its parameter servers", func() (bool, string) {
		_, why = s.complaint(trainer)
		return strings.Contains(why, "gangs that do not exist or belong to another scheduler: "+namespace+"/"+servers.name), why
	}); err != nil {
		return err
	}
	s.tick("%s waits:", trainer.name)
	fmt.Fprint(s.out, quote(why, quoteWidth))
	if err := s.submit(ctx, servers); err != nil {
		return err
	}
	if _, why, err := s.awaitRefusal(ctx, began, servers); err != nil {
		return err
	} else if !strings.Contains(why, "the node is in quarantine") {
		return fmt.Errorf("the PodGroup of %s does not report that its nodes are in quarantine: %q", servers.name, why)
	}
	if _, bound := s.view.placed(trainer.labels()); len(bound) > 0 {
		return fmt.Errorf("%d pods of %s are bound although the pre-bind of %s failed", len(bound), trainer.name, servers.name)
	}
	s.tick("the pre-bind of %s is refused: no pod of it or of %s is bound", servers.name, trainer.name)
	s.addRow("gang "+trainer.name, trainer, time.Since(began), "its group is refused: "+servers.name+" in quarantine")
	lifted := time.Now()
	for _, node := range there.nodes {
		if err := s.quarantine(ctx, node.Name, ""); err != nil {
			return err
		}
	}
	for _, g := range []gang{trainer, servers} {
		took, err := s.awaitBound(ctx, lifted, g)
		if err != nil {
			return err
		}
		s.tick("quarantine ends: all %d of %s bound %s later", g.members, g.name, short(took))
		s.addRow("  "+g.name+", of one group", g, took, "bound with its group, in one transaction")
	}
	return nil
}
