// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// urgent is the name of the PriorityClass of gangs that may evict others.
const urgent = "demo-urgent"

// evicts shows preemption for a whole gang. An urgent gang needs every node of a cluster in which another gang runs. That gang
// is evicted as a whole, and all other pods keep running.
func (s *story) evicts(ctx context.Context) error {
	c, victim := s.clusters[1], s.inTheWay[1]
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000}
	if _, err := s.kube.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating PriorityClass %s: %w", urgent, err)
	}
	_, before := s.view.placed(nil)
	g := newGang("train-g", c)
	g.priority = urgent
	s.say("%s: %d pods of priority %d, a whole node of %s each, minMember %d; %s uses %s of %s",
		g.name, g.members, class.Value, c.name, g.members, victim.name, count(victim.members, "node"), c.name)
	began := time.Now()
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	took, err := s.awaitIn(ctx, began, g, c)
	if err != nil {
		return err
	}
	if all, _ := s.view.placed(victim.labels()); len(all) > 0 {
		return fmt.Errorf("%d pods of gang %s still exist, although the gang was to be evicted as a whole", len(all), victim.name)
	}
	if _, after := s.view.placed(nil); len(after) != len(before)-victim.members+g.members {
		return fmt.Errorf("%d pods were bound before gang %s came, and %d are bound now: more pods than those of %s were evicted",
			len(before), g.name, len(after), victim.name)
	}
	s.tick("all %d pods of %s are evicted, and no others; all %d of %s bound in %s %s after the gang was created",
		victim.members, victim.name, g.members, g.name, c.name, short(took))
	s.addRow("gang "+g.name, g, took, "in the place of "+victim.name+", evicted as a whole")
	return nil
}
