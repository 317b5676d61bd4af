// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVolumesOfOneSize: of several volumes of one size, a claim prefers a volume that other claims cannot use.
func TestVolumesOfOneSize(t *testing.T) {
	fast := func(pv *v1.PersistentVolume) *v1.PersistentVolume {
		pv.Labels = map[string]string{"disk": "fast"}
		return pv
	}
	shared := func(pv *v1.PersistentVolume) *v1.PersistentVolume {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, v1.ReadWriteMany)
		return pv
	}
	selecting := func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	}
	sharing := func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	}
	asItIs := func(*v1.PersistentVolumeClaim) {}
	type placed struct {
		claims []string
		node   string
	}
	cases := map[string]struct {
		volumes []*v1.PersistentVolume
		claims  map[string]func(*v1.PersistentVolumeClaim)
		pods    []placed
	}{
		"a selector of another claim of the pod": {
			volumes: []*v1.PersistentVolume{fast(local("v1", "n1")), local("v2", "n1")},
			claims:  map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": selecting},
			pods:    []placed{{[]string{"c0", "c1"}, "n1"}},
		},
		"an access mode that another claim of the pod needs": {
			volumes: []*v1.PersistentVolume{shared(local("v1", "n1")), local("v2", "n1")},
			claims:  map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": sharing},
			pods:    []placed{{[]string{"c0", "c1"}, "n1"}},
		},
		"three claims, each of which needs what the one before would take": {
			volumes: []*v1.PersistentVolume{shared(fast(local("v1", "n1"))), shared(local("v2", "n1")), local("v3", "n1")},
			claims: map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": sharing, "c2": func(c *v1.PersistentVolumeClaim) {
				sharing(c)
				selecting(c)
			}},
			pods: []placed{{[]string{"c0", "c1", "c2"}, "n1"}},
		},
		"a selector of another pod's claim": {
			volumes: []*v1.PersistentVolume{fast(local("v1", "n1")), local("v2", "n1")},
			claims:  map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": selecting},
			pods:    []placed{{[]string{"c0"}, "n1"}, {[]string{"c1"}, "n1"}},
		},
		"a volume that another node reaches, too": {
			volumes: []*v1.PersistentVolume{schedtest.FreeVolume("v1", "local", "n1", "n2"), local("v2", "n1")},
			claims:  map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": asItIs},
			pods:    []placed{{[]string{"c0"}, "n1"}, {[]string{"c1"}, "n2"}},
		},
		"a volume that all nodes reach": {
			volumes: []*v1.PersistentVolume{schedtest.FreeVolume("v1", "local"), local("v2", "n1")},
			claims:  map[string]func(*v1.PersistentVolumeClaim){"c0": asItIs, "c1": asItIs},
			pods:    []placed{{[]string{"c0"}, "n1"}, {[]string{"c1"}, "n2"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"))
			for _, pv := range tc.volumes {
				objects = append(objects, pv)
			}
			for claim, mutate := range tc.claims {
				objects = append(objects, claimLike(claim, "local", mutate))
			}
			run(t, nil, objects, func(w *testCluster) {
				var tasks []*api.TaskInfo
				for i, pod := range tc.pods {
					tasks = append(tasks, member(fmt.Sprintf("g-%d", i), pod.claims...))
				}
				w.waiting(tasks...)
				for i, task := range tasks {
					if refused := w.fits(task, tc.pods[i].node); refused != "" {
						t.Fatalf("pod %d is refused: %s", i, refused)
					}
					w.mustPlace(task, tc.pods[i].node)
				}
			})
		})
	}
}

// TestFreeVolumesAreListedOnce checks that volumes reached by many nodes are not listed for each of these nodes.
func TestFreeVolumesAreListedOnce(t *testing.T) {
	const nodes, volumes = 30, 90
	objects := with()
	for i := range nodes {
		objects = append(objects, schedtest.MakeNode().Name(fmt.Sprintf("n%02d", i)).Label(v1.LabelTopologyZone, fmt.Sprint(i%3)).Obj())
	}
	for i := range volumes {
		pv := local(fmt.Sprintf("v%02d", i), "")
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0] = v1.NodeSelectorRequirement{
			Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint(i % 3)},
		}
		objects = append(objects, pv, schedtest.FreeVolume(fmt.Sprintf("w%02d", i), "local"))
	}
	run(t, nil, append(objects, runtime.Object(schedtest.UnboundClaim("c", "local"))), func(w *testCluster) {
		w.session.volumes.assumptions.mu.Lock()
		defer w.session.volumes.assumptions.mu.Unlock()
		inventory := w.session.inventory.of("local")
		lists, listed := map[*freeVolumes]bool{inventory.everywhere: true}, len(inventory.everywhere.list)
		for node, own := range inventory.free {
			if len(own) != 1 {
				t.Errorf("node %s has %d lists, want only that of its zone", node, len(own))
			}
			for _, list := range own {
				if !lists[list] {
					lists[list] = true
					listed += len(list.list)
				}
			}
		}
		if len(inventory.free) != nodes || listed != 2*volumes {
			t.Errorf("the lists of %[2]d nodes have %[1]d entries, want one for each of %[3]d volumes", listed, len(inventory.free), 2*volumes)
		}
	})
}
