// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// conf is a configuration with the plugin.
const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: volumebinding
- plugins:
  - name: predicates
    arguments: {predicate.VolumeBindingEnable: false}
  - name: nodeorder
`

// allocated runs allocate on the cluster once volumes have been read. It returns the nodes of the placed pods.
func allocated(t *testing.T, cluster *sessiontest.Cluster, spec framework.PluginSpec) (map[string]string, *volumes, func()) {
	t.Helper()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(spec)
	registry.RegisterAction(allocate.New())
	ssn := cluster.Open(registry, conf)
	made, err := spec.New(nil, cluster.Handle())
	if err != nil {
		t.Fatal(err)
	}
	known := made.(*plugin).volumes
	if !cache.WaitForCacheSync(t.Context().Done(), known.objects.isReady) {
		t.Fatal("the informers of volumes have not synced")
	}
	action, _ := vcframework.GetAction("allocate")
	ssn.Run(action)
	return ssn.Binds(), known, ssn.Close
}

// TestGangs: allocate places whole gangs on nodes with volumes for all members, and leaves no volume assumed for gangs
// that it does not place.
func TestGangs(t *testing.T) {
	gang := func(least int32) []*v1beta1.PodGroup {
		return []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(least).Obj()}
	}
	var pods []*v1.Pod
	objects := []runtime.Object{schedtest.LateClass("local", noProvisioner)}
	for i := range 3 {
		name := fmt.Sprintf("g-%d", i)
		pods = append(pods, schedtest.MakePod().Group("g").Name(name).Req(schedtest.Resources{"cpu": "1"}).Volume(name).Obj())
		objects = append(objects, schedtest.UnboundClaim(name, "local"))
	}
	cases := map[string]struct {
		volumes []runtime.Object
		min     int32
		want    string
		held    int
	}{
		"volumes for all":        {volumes: []runtime.Object{local("a", "n1"), local("b", "n1"), local("c", "n2")}, min: 3, want: "n1 n1 n2", held: 3},
		"volumes for two":        {volumes: []runtime.Object{local("a", "n1"), local("c", "n2")}, min: 3},
		"volumes for the least":  {volumes: []runtime.Object{local("a", "n1"), local("c", "n2")}, min: 2, want: "n1 n2", held: 2},
		"no volumes on any node": {volumes: []runtime.Object{local("a", "n3")}, min: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes: []*v1.Node{schedtest.MakeNode().Name("n1").Obj(), schedtest.MakeNode().Name("n2").Obj()}, PodGroups: gang(tc.min), Pods: pods,
				Objects: slices.Concat(objects, tc.volumes),
			})
			defer cluster.Close()
			binds, known, end := allocated(t, cluster, Spec())
			defer end()
			var nodes []string
			for _, node := range binds {
				nodes = append(nodes, node)
			}
			slices.Sort(nodes)
			if diff := cmp.Diff(tc.want, strings.Join(nodes, " ")); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if len(known.assumptions.assumed) != tc.held || len(known.assumptions.held) != tc.held {
				t.Errorf("%d pods hold %d claims, want %d", len(known.assumptions.assumed), len(known.assumptions.held), tc.held)
			}
		})
	}
}

// TestGangsDoNotCountOnOneCapacity: all nodes share capacity for two volumes. Two of three members are placed, but a
// gang that needs three is not.
func TestGangsDoNotCountOnOneCapacity(t *testing.T) {
	const unlimited = "rancher.io/local-path" // volumes of this driver have no attach limit
	class := schedtest.LateClass("made", unlimited)
	objects := zoneWide(capacity("2560Mi", "n1"))
	objects[0].(*storagev1.CSIDriver).Name = unlimited
	objects = append(objects, class)
	var pods []*v1.Pod
	for i := range 3 {
		name := fmt.Sprintf("g-%d", i)
		pods = append(pods, schedtest.MakePod().Group("g").Name(name).Req(schedtest.Resources{"cpu": "1"}).Volume(name).Obj())
		objects = append(objects, schedtest.UnboundClaim(name, "made"))
	}
	for least, want := range map[int32]int{2: 2, 3: 0} {
		t.Run(fmt.Sprintf("%d of 3", least), func(t *testing.T) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes: []*v1.Node{schedtest.MakeNode().Name("n1").Obj(), schedtest.MakeNode().Name("n2").Obj()}, Pods: pods, Objects: objects,
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(least).Obj()},
			})
			defer cluster.Close()
			binds, known, end := allocated(t, cluster, Spec())
			defer end()
			if len(binds) != want || len(known.assumptions.assumed) != want {
				t.Errorf("the placed pods are %v, and %d pods hold claims, want %d", binds, len(known.assumptions.assumed), want)
			}
		})
	}
}

// TestNodesThatShareStorageAreAskedAgain: a placement on one node reduces the volumes or capacity of other nodes that
// share them. The five best nodes have enough for two of five members, and the sixth node for the others.
func TestNodesThatShareStorageAreAskedAgain(t *testing.T) {
	const unlimited = "rancher.io/local-path"
	of := func(zone string) []v1.NodeSelectorRequirement {
		return []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}}
	}
	cases := map[string]struct {
		provisioner string
		storage     func(zone string, n int) []runtime.Object
	}{
		"volumes": {noProvisioner, func(zone string, n int) (list []runtime.Object) {
			for i := range n {
				pv := schedtest.FreeVolume(fmt.Sprintf("%s-%d", zone, i), "class", zone)
				pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions = of(zone)
				list = append(list, pv)
			}
			return list
		}},
		"capacity": {unlimited, func(zone string, n int) []runtime.Object {
			c := capacity(fmt.Sprintf("%dGi", n), zone)[1].(*storagev1.CSIStorageCapacity)
			c.StorageClassName, c.NodeTopology.MatchLabels = "class", map[string]string{"zone": zone}
			return []runtime.Object{c}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{
				Nodes:     []*v1.Node{schedtest.MakeNode().Name("small").Label("zone", "b").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj()},
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(5).Obj()},
				Objects: slices.Concat(tc.storage("a", 2), tc.storage("b", 3), []runtime.Object{schedtest.LateClass("class", tc.provisioner),
					&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: unlimited}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}}),
			}
			for i := range 5 {
				pod := fmt.Sprintf("g-%d", i)
				w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Label("zone", "a").Capacity(schedtest.Resources{"cpu": "16", "pods": "10"}).Obj())
				w.Objects = append(w.Objects, schedtest.UnboundClaim(pod, "class"))
				w.Pods = append(w.Pods, schedtest.MakePod().Group("g").Name(pod).Req(schedtest.Resources{"cpu": "1"}).Volume(pod).Obj())
			}
			cluster := sessiontest.New(w)
			defer cluster.Close()
			binds, _, end := allocated(t, cluster, Spec())
			defer end()
			small := 0
			for _, node := range binds {
				if node == "small" {
					small++
				}
			}
			if len(binds) != 5 || small != 3 {
				t.Errorf("got %v, want three of five on the node small", binds)
			}
		})
	}
}
