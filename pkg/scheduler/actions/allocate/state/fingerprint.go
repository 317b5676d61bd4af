// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang of unlike members that fits nowhere is searched for long, thousands of small ones take as long together, and mostly the next session
// finds what the last one did. So why it did not fit is carried over from session to session, with a fingerprint of all that it
// follows from: the gang, the nodes it may lie on, and what verdicts on these may depend on. Where that is more than can be named, the
// fingerprint is 0 and nothing is carried over.

// Fingerprinter makes fingerprints.
type Fingerprinter struct {
	ssn    *framework.Session
	index  *nodeset.Index
	finder *feasible.Finder
	memory *memory.Memory
	// nodes are the fingerprints of nodes, by number, and versions 1 + the version that each is of; nil before the first.
	nodes    []uint64
	versions []uint32
	// all is of all nodes, and allState the state of the index that it is of.
	all      uint64
	allState int
	// judged are of what plugins know of all nodes, by plugin.
	judged map[string]judgedNodes
	// session is of what verdicts on any node may depend on; 0 when that is more than can be named.
	session uint64
	known   bool
}

func newFingerprinter(ssn *framework.Session, index *nodeset.Index, finder *feasible.Finder, m *memory.Memory) *Fingerprinter {
	return &Fingerprinter{ssn: ssn, index: index, finder: finder, memory: m, allState: -1}
}

func (f *Fingerprinter) bytes(b []byte) uint64 { return maphash.Bytes(f.memory.Seed, b) }

// FingerprintOf returns the fingerprint of what decides on the job; 0 for none.
func (r *Attempt) FingerprintOf() uint64 {
	if Sharded() || !(r.Run.Progress.GangDecides && r.Pending.IsShort(r.Job)) && r.Run.Progress.JobReady(r.Job) {
		return 0
	}
	session := r.Run.Prints.OfSession()
	if session == 0 {
		return 0
	}
	b := r.appendUnitGang(appendNumber(make([]byte, 0, 256), session))
	if b == nil {
		return 0
	}
	if r.Groups == nil || !r.Groups.Required {
		b = appendNumber(b, r.Run.Prints.ofAll())
	} else { // explanations tell of the largest of all nodes
		b = r.Run.Prints.appendResource(b, r.Run.Index.LargestNode())
	}
	return max(r.Run.Prints.bytes(b), 1)
}

// Sharded is true if the nodes are divided between schedulers.
func Sharded() bool {
	mode := options.ServerOpts.ShardingMode
	return mode != vcutil.NoneShardingMode && mode != ""
}

// appendGroups appends where the job may lie, and the nodes there.
func (r *Attempt) appendGroups(b []byte) []byte {
	b = appendFlag(appendText(b, r.Groups.Plugin), r.Groups.Required)
	for _, path := range slices.Sorted(maps.Keys(r.Groups.Refused)) {
		b = appendText(appendText(b, path), r.Groups.Refused[path])
	}
	for _, group := range r.Groups.Candidates {
		b = appendNumber(appendText(b, group.Path()), r.Run.Prints.ofSet(r.Run.Index.Group(group)))
	}
	return b
}

// appendGang appends what decides on the gang, which has tasks of these classes to be placed, in task order.
func (r *Attempt) appendGang(b []byte, classes []*feasible.TaskClass) []byte {
	job := r.Job
	b = appendText(b, string(job.Queue))
	b = appendNumber(appendNumber(b, uint64(r.NeededByJob())), uint64(job.MinAvailable))
	b = appendNumber(b, uint64(job.TaskMinAvailableTotal))
	for _, role := range sortedRoles(job.TaskMinAvailable) {
		b = appendNumber(appendText(b, role), uint64(job.TaskMinAvailable[role]))
	}
	b = appendNumber(b, uint64(len(job.TaskMinAvailable)))
	b = appendNumber(appendNumber(b, uint64(len(classes))), uint64(len(job.Tasks)))
	if len(classes) < len(job.Tasks) { // otherwise all that the minimum asks for is lacking
		lacking := r.NeededByRole()
		b = appendNumber(b, uint64(len(lacking)))
		for _, role := range sortedRoles(lacking) {
			b = appendNumber(appendText(b, role), uint64(lacking[role]))
		}
	}
	for _, class := range classes {
		b = appendNumber(b, class.Fingerprint())
	}
	return b
}

// sortedRoles lists the roles. Most gangs have none.
func sortedRoles(counts map[string]int32) []string {
	if len(counts) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(counts))
}

// What is appended is of a fixed length or begins with its own, so that no two gangs have one fingerprint by what they put
// where.

func appendNumber(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

func appendAmount(b []byte, v float64) []byte { return appendNumber(b, math.Float64bits(v)) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFlag(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// QueueTakes is true if the gang's queue has room for all of the tasks together, so that it refuses none of them.
func (r *Attempt) QueueTakes(tasks []*api.TaskInfo) bool {
	all := *tasks[0]
	all.Resreq, all.InitResreq = all.Resreq.Clone(), all.InitResreq.Clone()
	for _, task := range tasks[1:] {
		all.Resreq.Add(task.Resreq)
		all.InitResreq.Add(task.InitResreq)
	}
	return r.Run.Session.Allocatable(r.Run.Session.Queues[r.Job.Queue], &all)
}

// ofAll is the fingerprint of all nodes.
func (f *Fingerprinter) ofAll() uint64 {
	if state := f.index.State(); f.allState != state {
		f.allState, f.all = state, f.ofSet(f.index.All)
	}
	return f.all
}

// judgedNodes is the fingerprint of what a plugin knows of all nodes, in a state of the index; 0 where it has no key for that.
type judgedNodes struct {
	state       int
	fingerprint uint64
}

// appendJudges appends what plugins of this project, which refuse nodes to tasks of the input, know of all nodes; nil where one has no key for that.
func (f *Fingerprinter) appendJudges(b []byte, in *PackingInput) []byte {
	for _, tasks := range in.Tasks {
		for _, plugin := range f.finder.Judges(tasks[0]) {
			known := f.ofJudged(plugin)
			if known == 0 {
				return nil
			}
			b = appendNumber(appendText(b, plugin), known)
		}
	}
	return b
}

func (f *Fingerprinter) ofJudged(plugin string) uint64 {
	known, ok := f.judged[plugin]
	if state := f.index.State(); !ok || known.state != state {
		known = judgedNodes{state, f.makeJudged(plugin)}
		note(&f.judged, plugin, known)
	}
	return known.fingerprint
}

func (f *Fingerprinter) makeJudged(plugin string) uint64 {
	b := make([]byte, 0, 8*len(f.index.Nodes))
	for _, node := range f.index.Nodes {
		key, ok := f.ssn.Verdicts.NodeKey(plugin, node)
		if !ok {
			return 0
		}
		b = appendNumber(b, key)
	}
	return max(f.bytes(b), 1)
}

func (f *Fingerprinter) ofSet(set *nodeset.Set) uint64 {
	b := make([]byte, 0, 8*len(set.Nodes))
	for _, node := range set.Nodes {
		b = appendNumber(b, f.ofNode(node))
	}
	return f.bytes(b)
}

// ofNode is the fingerprint of a node as it is now: of its object, which is another when it changes, of what is left of it, and of
// the pods on it.
func (f *Fingerprinter) ofNode(node int32) uint64 {
	if f.nodes == nil {
		f.nodes, f.versions = make([]uint64, len(f.index.Nodes)), make([]uint32, len(f.index.Nodes))
	}
	if version := f.index.Version(node) + 1; f.versions[node] != version {
		all := f.index.Nodes
		f.versions[node] = version
		f.nodes[node] = f.memory.Nodes.FingerprintOf(node, all, func(number uint64) uint64 { return f.makeNode(all[node], number) })
	}
	return f.nodes[node]
}

// makeNode computes the fingerprint of a node whose object has the number.
func (f *Fingerprinter) makeNode(node *api.NodeInfo, number uint64) uint64 {
	b := appendText(make([]byte, 0, 256), node.Name)
	b = appendNumber(b, number)
	for _, r := range []*api.Resource{node.Idle, node.Releasing, node.Pipelined, node.Allocatable} {
		b = f.appendResource(b, r)
	}
	b = appendNumber(b, uint64(node.Allocatable.MaxTaskNum))
	pods := uint64(0)
	for _, task := range node.Tasks { // which are by name: another of its name may lie there
		pods += maphash.String(f.memory.Seed, string(task.UID))
	}
	b = appendNumber(appendNumber(b, uint64(len(node.Tasks))), pods)
	if node.ResourceUsage != nil {
		b = appendNumber(b, uint64(node.ResourceUsage.MetricsTime.UnixNano()))
	}
	return f.bytes(appendFlag(appendFlag(b, node.OversubscriptionNode), node.OfflineJobEvicting))
}

func (f *Fingerprinter) appendResource(b []byte, r *api.Resource) []byte {
	b = appendAmount(appendAmount(b, r.MilliCPU), r.Memory)
	if len(r.ScalarResources) == 0 { // iterating over an empty map takes longer than all the rest
		return appendNumber(b, 0)
	}
	scalars := uint64(0)
	for name, value := range r.ScalarResources {
		scalars += f.bytes(appendAmount(append(make([]byte, 0, 64), name...), value))
	}
	return appendNumber(b, scalars)
}

// OfSession is the fingerprint of the conf, of the cluster's resources, in shares of which tasks are large or small, and of the pods that keep
// others away by required anti-affinity. Where these select namespaces by label it is 0.
func (f *Fingerprinter) OfSession() uint64 {
	if f.known {
		return f.session
	}
	f.known = true
	conf, err := json.Marshal([]any{f.ssn.Tiers, f.ssn.Configurations})
	if err != nil {
		return 0
	}
	b := f.appendResource(conf, f.ssn.TotalResource)
	pods := uint64(0)
	for name, node := range f.ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			if selectsNamespaces(info) {
				return 0
			}
			at, known := f.index.Number(name)
			if !known {
				return 0
			}
			number := f.memory.Nodes.NumberOf(at, f.index.Nodes)
			pods += f.bytes(appendNumber(appendText(appendText(nil, name), string(info.GetPod().UID)), number))
		}
	}
	f.session = max(f.bytes(appendNumber(b, pods)), 1)
	return f.session
}

func selectsNamespaces(info fwk.PodInfo) bool {
	return slices.ContainsFunc(info.GetRequiredAntiAffinityTerms(), func(term fwk.AffinityTerm) bool {
		return term.NamespaceSelector != nil && !term.NamespaceSelector.Empty()
	})
}

// FingerprintOfUnit returns the fingerprint of all that decides on a unit of these gangs; 0 where that is more than can be named.
func FingerprintOfUnit(run *Run, gangs []*api.JobInfo, pending map[api.JobID]*Pending) uint64 {
	session := run.Prints.OfSession()
	if session == 0 || Sharded() {
		return 0
	}
	b := appendNumber(nil, session)
	for _, job := range gangs {
		r, err := NewAttempt(run, job, pending[job.UID], false)
		if err != nil {
			return 0
		}
		if b = r.appendUnitGang(appendText(b, string(job.UID))); b == nil {
			return 0
		}
	}
	b = appendNumber(b, run.Prints.ofAll())
	return max(run.Prints.bytes(b), 1)
}

// appendUnitGang appends what decides on one of the unit's gangs; nil where that is more than can be named.
func (r *Attempt) appendUnitGang(b []byte) []byte {
	tasks := r.Pending.Tasks[r.Job.DefaultSubJobID()]
	if len(tasks) == 0 || r.Gathering != nil || r.DividesItself() || len(r.Members.Nodes) > 0 || len(r.Job.TaskStatusIndex[api.Pipelined]) > 0 ||
		len(r.Run.Session.Placement.Avoided(r.Job)) > 0 {
		return nil
	}
	in := &PackingInput{Run: r.Run}
	at := map[*feasible.TaskClass]int{}
	classes := make([]*feasible.TaskClass, len(tasks))
	for n, task := range tasks {
		class := r.Run.Finder.Class(task)
		classes[n] = class
		i, known := at[class]
		if !known {
			i = len(in.Tasks)
			at[class], in.Tasks = i, append(in.Tasks, nil)
		}
		in.Tasks[i] = append(in.Tasks[i], task)
	}
	chosenBy := ""
	if r.Groups != nil {
		chosenBy = r.Groups.Plugin
	}
	if !in.decidedBy(r.Run.Finder.DecidedByClass, chosenBy) {
		return nil
	}
	b = r.appendGang(b, classes)
	if b = r.Run.Prints.appendJudges(b, in); b == nil {
		return nil
	}
	if r.Groups == nil {
		return appendFlag(b, false)
	}
	return r.appendGroups(appendFlag(b, true))
}
