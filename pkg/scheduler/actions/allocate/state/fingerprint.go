// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
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

// Sharded is true if the nodes are divided between schedulers.
func Sharded() bool {
	mode := options.ServerOpts.ShardingMode
	return mode != vcutil.NoneShardingMode && mode != ""
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

// appendJudges appends what plugins of this project, which refuse nodes to tasks of these classes, know of all nodes; nil where one has no key for that.
func (f *Fingerprinter) appendJudges(b []byte, classes [][]*api.TaskInfo) []byte {
	for _, tasks := range classes {
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
