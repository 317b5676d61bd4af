// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var (
	differentialSeeds = rounds.Flag("differential.seeds", 50, 200, "how many random worlds")
	differentialSeed  = flag.Uint64("differential.seed", 0, "the only random cluster to try; 0 for all")
)

// TestResultsEqualTheBinders places random pods with random claims, and reverts some placements. It compares each
// filter result, cached ones included, with the result of the Kubernetes binder for the pod and node.
func TestResultsEqualTheBinders(t *testing.T) {
	var sum tally
	seeds := uint64(differentialSeeds.Of(t))
	for seed := uint64(1); seed <= seeds; seed++ {
		if *differentialSeed > 0 {
			seed = *differentialSeed
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := &differential{Rand: rand.New(rand.NewPCG(seed, 7)), tally: &sum}
			run(t, nil, d.objects(), func(w *testCluster) { d.play(w) })
		})
		if *differentialSeed > 0 {
			return
		}
	}
	t.Logf("%+v", sum)
	if sum.kept < sum.asked/10 || sum.accepted < sum.asked/10 || sum.accepted > sum.asked*9/10 || sum.shared == 0 || sum.placed == 0 {
		t.Errorf("the random clusters have too few cases of one kind: %+v", sum)
	}
}

// tally counts filter results that were compared with the binder's. kept counts cached results, and shared counts
// results that were computed for another task.
type tally struct{ asked, kept, accepted, shared, placed int }

// differential is one random cluster. All volumes differ in size, as do the claims of a pod, and a node reaches at most
// one capacity of a class. Otherwise the choice of the binder among equals would be random.
type differential struct {
	*rand.Rand
	cluster *testCluster
	*tally
	nodes []*v1.Node
	tasks []*api.TaskInfo
	// kept has the cached results, as allocate keeps them, by signature and node. The first task of a signature
	// computes them.
	kept  map[string]*keptClass
	class map[*api.TaskInfo]string
}

type keptClass struct {
	first    *api.TaskInfo
	verdicts map[string]bool
}

const differentialNodes = 4

func (d *differential) one(values ...string) string { return values[d.IntN(len(values))] }

func (d *differential) chance(percent int) bool { return d.IntN(100) < percent }

func (d *differential) objects() []runtime.Object {
	objects := []runtime.Object{schedtest.LateClass("local", noProvisioner), schedtest.LateClass("made", "other.example.com"), schedtest.LateClass("counted", provisioner)}
	if d.chance(50) {
		objects[1].(*storagev1.StorageClass).AllowedTopologies = []v1.TopologySelectorTerm{{
			MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}},
		}}
	}
	for i := range differentialNodes {
		node := schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Label("zone", d.one("a", "b")).Obj()
		d.nodes, objects = append(d.nodes, node), append(objects, node)
	}
	for i := range d.IntN(7) {
		objects = append(objects, d.volume(i))
	}
	objects = append(objects, d.capacities()...)
	return append(objects, d.claims()...)
}

func (d *differential) volume(i int) *v1.PersistentVolume {
	var nodes []string
	if d.chance(85) {
		nodes = append(nodes, fmt.Sprintf("n%d", d.IntN(differentialNodes)))
	}
	if len(nodes) > 0 && d.chance(15) {
		nodes = append(nodes, fmt.Sprintf("n%d", d.IntN(differentialNodes)))
	}
	pv := schedtest.FreeVolume(fmt.Sprintf("v%d", i), d.one("local", "local", "made", "counted"), nodes...)
	pv.Spec.Capacity[v1.ResourceStorage] = *resource.NewQuantity(int64(1+d.IntN(2))<<30+int64(i)<<20, resource.BinarySI)
	if d.chance(20) {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: d.affinity()}
	}
	if d.chance(30) {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, v1.ReadWriteMany)
	}
	if d.chance(20) {
		block := v1.PersistentVolumeBlock
		pv.Spec.VolumeMode = &block
	}
	if d.chance(50) {
		pv.Labels = map[string]string{"tier": d.one("x", "y")}
	}
	switch {
	case d.chance(5):
		pv.Status.Phase = v1.VolumeReleased
	case d.chance(10):
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: fmt.Sprintf("c%d", d.IntN(8))}
	}
	return pv
}

func (d *differential) affinity() *v1.NodeSelector {
	requires := func(key string, operator v1.NodeSelectorOperator, value string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: []string{value}}}}
	}
	in, notIn, node := v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, fmt.Sprintf("n%d", d.IntN(differentialNodes))
	switch d.IntN(4) {
	case 0:
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{requires("zone", in, d.one("a", "b"))}}
	case 1:
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{requires(v1.LabelHostname, notIn, node)}}
	case 2:
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{requires(v1.LabelHostname, in, node), requires("zone", in, d.one("a", "b"))}}
	default:
		one := requires("zone", notIn, d.one("a", "b"))
		one.MatchExpressions = append(one.MatchExpressions, requires(v1.LabelHostname, in, node).MatchExpressions...)
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{one}}
	}
}

// capacities returns random capacities of class counted, of nodes or of zones.
func (d *differential) capacities() []runtime.Object {
	objects := []runtime.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: provisioner}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}}
	key, values := "zone", []string{"a", "b"}
	if d.chance(50) {
		key, values = v1.LabelHostname, []string{"n0", "n1", "n2", "n3"}
	}
	for _, value := range values {
		c := &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: value, Namespace: schedtest.Namespace}, StorageClassName: "counted",
			Capacity: resource.NewQuantity(int64(d.IntN(8))<<30, resource.BinarySI), NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		}
		switch d.IntN(10) {
		case 0, 1:
			c.MaximumVolumeSize = resource.NewQuantity(int64(1+d.IntN(2))<<30, resource.BinarySI)
		case 2:
			c.NodeTopology = nil
		case 3:
			c.Capacity = nil
		}
		objects = append(objects, c)
	}
	return objects
}

// claims also creates the tasks. Some have two claims, and some share a claim.
func (d *differential) claims() []runtime.Object {
	var objects []runtime.Object
	class, alike := d.one("local", "made", "counted"), d.chance(70)
	for i := range 8 {
		if !alike {
			class = d.one("local", "made", "counted")
		}
		objects = append(objects, d.claim(fmt.Sprintf("c%d", i), class, 0), d.claim(fmt.Sprintf("e%d", i), class, 100<<20))
	}
	for i := range 8 {
		claims := []string{fmt.Sprintf("c%d", i)}
		if d.chance(10) {
			claims[0] = "c0"
		}
		if d.chance(25) {
			claims = append(claims, fmt.Sprintf("e%d", i))
			d.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
		}
		d.tasks = append(d.tasks, member(fmt.Sprintf("g-%d", i), claims...))
	}
	return objects
}

func (d *differential) claim(name, class string, more int64) *v1.PersistentVolumeClaim {
	c := schedtest.UnboundClaim(name, class)
	if d.chance(15) {
		more += 1 << 30
	}
	c.Spec.Resources.Requests[v1.ResourceStorage] = *resource.NewQuantity(1<<30+more, resource.BinarySI)
	if d.chance(20) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	}
	if d.chance(10) {
		block := v1.PersistentVolumeBlock
		c.Spec.VolumeMode = &block
	}
	if d.chance(15) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": d.one("x", "y")}}
	}
	if d.chance(4) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, fmt.Sprintf("n%d", d.IntN(differentialNodes)))
	}
	return c
}

// play places and releases tasks, and compares all results after each step. As in allocate, a task is first filtered at
// some time during the session.
func (d *differential) play(w *testCluster) {
	d.cluster, d.kept, d.class = w, map[string]*keptClass{}, map[*api.TaskInfo]string{}
	w.waiting(d.tasks...)
	for range 12 {
		task := d.tasks[d.IntN(len(d.tasks))]
		node := task.NodeName
		if task.Status == api.Pending {
			if node = d.placeSomewhere(task); node == "" {
				continue
			}
		} else {
			w.take(task)
			task.NodeName = ""
		}
		for _, class := range d.kept {
			class.verdicts[node] = d.says(class.first, node)
		}
		d.compare()
	}
}

// placeSomewhere places the task on a random node that the filter accepts.
func (d *differential) placeSomewhere(task *api.TaskInfo) string {
	if err := d.cluster.session.prePredicate(task); err != nil {
		d.cluster.t.Fatal(err)
	}
	for _, i := range d.Perm(len(d.nodes)) {
		node := d.nodes[i].Name
		if !d.says(task, node) {
			continue
		}
		if err := d.cluster.place(task, node); err != nil {
			d.cluster.t.Errorf("%s fits on %s, but Reserve failed: %v", task.Name, node, err)
			task.Status, task.NodeName = api.Pending, ""
			return ""
		}
		d.placed++
		return node
	}
	return ""
}

func (d *differential) says(task *api.TaskInfo, node string) bool {
	err := d.cluster.session.predicate(task, d.cluster.session.users.nodes[node])
	if *differentialSeed > 0 {
		d.cluster.t.Logf("%s with %v on %s: %v", task.Name, claimVolumes(task.Pod), node, err)
	}
	return err == nil
}

// compare compares the filter results and the cached results with those of the binder.
func (d *differential) compare() {
	for _, task := range d.tasks {
		if task.Status != api.Pending {
			continue
		}
		if _, looked := d.class[task]; !looked && d.chance(50) {
			d.classify(task)
		}
		if err := d.cluster.session.prePredicate(task); err != nil {
			d.cluster.t.Fatal(err)
		}
		for _, node := range d.nodes {
			want := d.cluster.takes(task.Pod, node)
			d.asked++
			if want {
				d.accepted++
			}
			if got := d.says(task, node.Name); got != want {
				d.cluster.t.Errorf("%s on %s: the filter returns %v and the binder %v", task.Name, node.Name, got, want)
			}
			class := d.kept[d.class[task]]
			if class == nil {
				continue
			}
			d.countKept(class, task)
			if got := class.verdicts[node.Name]; got != want {
				d.cluster.t.Errorf("%s on %s: the cached result is %v, from %s, but the binder returns %v", task.Name, node.Name, got, class.first.Name, want)
			}
		}
	}
}

func (d *differential) countKept(class *keptClass, task *api.TaskInfo) {
	d.tally.kept++
	if class.first != task {
		d.shared++
	}
}

// classify computes or finds the cached results of a task, as allocate does.
func (d *differential) classify(task *api.TaskInfo) {
	if d.cluster.session.uncacheable(task) {
		d.class[task] = ""
		return
	}
	key := ""
	for i := range task.Pod.Spec.Volumes {
		key += d.cluster.session.SignVolume(task.Pod, &task.Pod.Spec.Volumes[i]) + "; "
	}
	if d.class[task] = key; d.kept[key] != nil {
		return
	}
	if err := d.cluster.session.prePredicate(task); err != nil {
		d.cluster.t.Fatal(err)
	}
	class := &keptClass{first: task, verdicts: map[string]bool{}}
	for _, node := range d.nodes {
		class.verdicts[node.Name] = d.says(task, node.Name)
	}
	d.kept[key] = class
}
