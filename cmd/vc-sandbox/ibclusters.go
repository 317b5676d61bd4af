// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// shares shows a gang that names no cluster. Other pods use nodes of two of the three clusters. The free nodes of these
// two clusters together would suffice for the gang, but neither cluster alone can hold it. The whole gang is placed in
// the third cluster.
func (s *story) shares(ctx context.Context) error {
	free := s.clusters[2]
	g := s.sharing("train-a", len(free.nodes))
	for i := range s.inTheWay {
		c := s.clusters[i]
		dev := newGang("dev-"+c.name, c)
		dev.members = len(c.nodes) - g.members + 1
		s.inTheWay[i] = dev
		if err := s.submit(ctx, dev); err != nil {
			return err
		}
		if _, err := s.awaitBound(ctx, time.Now(), dev); err != nil {
			return err
		}
	}
	s.say("%s: %d pods, a whole node each, minMember %d, all in any one cluster; other pods use %s of %s and %s of %s",
		g.name, g.members, g.members, count(s.inTheWay[0].members, "node"), s.clusters[0].name,
		count(s.inTheWay[1].members, "node"), s.clusters[1].name)
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	took, err := s.awaitIn(ctx, time.Now(), g, free)
	if err != nil {
		return err
	}
	s.tick("all %d bound in %s, %s after the last was created", g.members, free.name, short(took))
	s.addRow("gang "+g.name, g, took, "in the only cluster with room for it")
	s.done = g
	return nil
}

// fitsNone shows a gang that no cluster can hold, although the free nodes of two clusters together would suffice. For
// each cluster, the PodGroup reports how many members fit and why the next member does not. When nodes of a cluster
// become free, the whole gang is placed there.
func (s *story) fitsNone(ctx context.Context) error {
	g := s.sharing("train-b", s.done.members)
	s.say("%s: a second gang like it", g.name)
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	took, why, err := s.awaitPending(ctx, time.Now(), g)
	if err != nil {
		return err
	}
	for i, c := range s.clusters {
		fits := 0
		if i < len(s.inTheWay) {
			fits = len(c.nodes) - s.inTheWay[i].members
		}
		if verdict := fmt.Sprintf("%s %d/%d: ", c.name, fits, g.members); !strings.Contains(why, verdict) {
			return fmt.Errorf("PodGroup %s does not report %q in %q", g.name, verdict, why)
		}
	}
	s.tick("no pod is bound; the PodGroup reports after %s:", short(took))
	fmt.Fprint(s.out, quote(why, quoteWidth))
	s.addRow("gang "+g.name, g, took, "waits: "+strings.SplitN(why, ":", 2)[0])

	freed := s.clusters[1]
	if err := s.remove(ctx, s.inTheWay[1]); err != nil {
		return err
	}
	took, err = s.awaitIn(ctx, time.Now(), g, freed)
	if err != nil {
		return err
	}
	s.tick("the other pods of %s are deleted: all %d bound there %s later", freed.name, g.members, short(took))
	s.addRow("  "+freed.name+" is free again", g, took, "in the only cluster with room for it")
	s.inTheWay[1] = g
	return nil
}

// sharing returns a gang that may be placed in any one of the demo's clusters. All its members must be in the same
// cluster.
func (s *story) sharing(name string, members int) gang {
	g := newGang(name, s.clusters[2])
	g.members, g.anyCluster, g.among = members, true, s.among
	return g
}

// awaitIn waits until every member has a node, and checks that all these nodes are in the cluster.
func (s *story) awaitIn(ctx context.Context, began time.Time, g gang, want ibCluster) (time.Duration, error) {
	took, err := s.awaitBound(ctx, began, g)
	if err != nil {
		return 0, err
	}
	names := make([]string, len(want.nodes))
	for i, node := range want.nodes {
		names[i] = node.Name
	}
	_, bound := s.view.placed(g.labels())
	for _, pod := range bound {
		if !slices.Contains(names, pod.Spec.NodeName) {
			return 0, fmt.Errorf("pod %s was bound to node %s, which is not in %s", pod.Name, pod.Spec.NodeName, want.name)
		}
	}
	return took, nil
}
