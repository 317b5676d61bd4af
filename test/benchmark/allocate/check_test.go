// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestCheck(t *testing.T) {
	sh := shape{nodes: 250, gangs: 1, gangSize: 2, cpu: "20", clusters: 2, running: running{spoilt: true}}
	free := func(place int) string { return sh.nodeList()[place].Name }
	tests := map[string]struct {
		placement map[string]string
		want      string
	}{
		"no pod placed":         {map[string]string{}, ""},
		"in one cluster":        {map[string]string{"ns/gang-00000-0000": free(0), "ns/gang-00000-0001": free(1)}, ""},
		"a gang in part":        {map[string]string{"ns/gang-00000-0000": free(0)}, "1 of the 2 pods of gang gang-00000"},
		"in two clusters":       {map[string]string{"ns/gang-00000-0000": free(0), "ns/gang-00000-0001": free(125)}, "in clusters ib-0 and ib-1"},
		"more than a node has":  {map[string]string{"ns/gang-00000-0000": free(0), "ns/gang-00000-0001": free(0)}, "was given 40 of cpu and has 32"},
		"on a node with others": {map[string]string{"ns/gang-00000-0000": free(125), "ns/gang-00000-0001": free(126)}, "was given 33 of cpu and has 32"},
		"on a tainted node":     {map[string]string{"ns/gang-00000-0000": free(2), "ns/gang-00000-0001": free(3)}, "which is tainted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := sh.world(hardHyperNode())
			w.Nodes[2].Spec.Taints = []v1.Taint{{Key: spoilTaint, Effect: v1.TaintEffectNoSchedule}}
			err := check(w, sh, tc.placement)
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestCheckMembersApart(t *testing.T) {
	sh := shape{nodes: 2, gangs: 2, gangSize: 2, cpu: "1", apart: true}
	nodes := sh.nodeList()
	place := func(at ...int) map[string]string {
		placement := map[string]string{}
		for i, pod := range []string{podName(0, 0), podName(0, 1), podName(1, 0), podName(1, 1)} {
			placement[podNamespace+"/"+pod] = nodes[at[i]].Name
		}
		return placement
	}
	if err := check(sh.world(hardHyperNode()), sh, place(0, 1, 0, 1)); err != nil {
		t.Errorf("each on a node of its own: %v", err)
	}
	err := check(sh.world(hardHyperNode()), sh, place(0, 1, 1, 1))
	if err == nil || !strings.Contains(err.Error(), "gang-00001-0000 and gang-00001-0001 were both placed on node "+nodes[1].Name) {
		t.Errorf("two on one node: got error %v", err)
	}
}
