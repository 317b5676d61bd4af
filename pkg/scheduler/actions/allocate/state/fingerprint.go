// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A search for a gang of different members that fits nowhere takes long, and so do searches for thousands of small
// gangs. Mostly, the next session has the same result. So the reason is kept from session to session, with a
// fingerprint of everything that it depends on: the gang, the nodes where it may be placed, and the inputs of filter
// results on these nodes. If some of these cannot be compared between sessions, the fingerprint is 0 and nothing is
// kept.

// Fingerprinter computes fingerprints of nodes and of the session, which are parts of the fingerprints of gangs.
type Fingerprinter struct {
	ssn          *framework.Session
	index        *nodeset.Index
	finder       *feasible.Finder
	crossSession *crosssession.Cache
	// nodes are the fingerprints of nodes, by node number. versions are 1 + the number of changes of the node
	// (nodeset.Index.Version) when its fingerprint was computed. Both are nil before the first use.
	nodes    []uint64
	versions []uint32
	// all is the fingerprint of all nodes. allState is the number of changes of nodes (nodeset.Index.State) when it was
	// computed.
	all      uint64
	allState int
	// judged maps each plugin to a fingerprint of the keys that it gives to the nodes. A node's key covers everything that
	// the plugin's filter results on that node depend on (Signer.SignNode).
	judged map[string]judgedNodes
	// session is the fingerprint of the inputs of filter results that do not belong to one node; 0 if a part of them
	// cannot be compared. known reports whether session was computed.
	session uint64
	known   bool
}

func newFingerprinter(ssn *framework.Session, index *nodeset.Index, finder *feasible.Finder, m *crosssession.Cache) *Fingerprinter {
	return &Fingerprinter{ssn: ssn, index: index, finder: finder, crossSession: m, allState: -1}
}

func (f *Fingerprinter) bytes(b []byte) uint64 { return maphash.Bytes(f.crossSession.Seed, b) }

// Sharded reports whether the nodes are divided between schedulers.
func Sharded() bool {
	mode := options.ServerOpts.ShardingMode
	return mode != vcutil.NoneShardingMode && mode != ""
}

// Values that are appended to the bytes of a fingerprint have a fixed length or begin with their length, so that
// different gangs cannot have the same bytes.

func appendNumber(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// OfNodes returns the fingerprint of all nodes.
func (f *Fingerprinter) OfNodes() uint64 {
	if state := f.index.State(); f.allState != state {
		f.allState, f.all = state, f.ofSet(f.index.All)
	}
	return f.all
}

// judgedNodes is a fingerprint of the keys that a plugin gives to all nodes (Signer.SignNode); 0 if the plugin has no
// keys. state is the number of changes of nodes (nodeset.Index.State) when it was computed.
type judgedNodes struct {
	state       int
	fingerprint uint64
}

// appendOwnFilters appends, for each plugin of this project that has a predicate for tasks of these classes, a
// fingerprint of the keys that the plugin gives to all nodes (Signer.SignNode). It returns nil if one of these plugins
// has no keys.
func (f *Fingerprinter) appendOwnFilters(b []byte, classes [][]*api.TaskInfo) []byte {
	for _, tasks := range classes {
		for _, plugin := range f.finder.OwnFilters(tasks[0]) {
			known := f.ofJudged(plugin)
			if known == 0 {
				return nil
			}
			b = appendNumber(keybytes.Text(b, plugin), known)
		}
	}
	return b
}

func (f *Fingerprinter) ofJudged(plugin string) uint64 {
	known, ok := f.judged[plugin]
	if state := f.index.State(); !ok || known.state != state {
		known = judgedNodes{state, f.makeJudged(plugin)}
		setIn(&f.judged, plugin, known)
	}
	return known.fingerprint
}

func (f *Fingerprinter) makeJudged(plugin string) uint64 {
	b := make([]byte, 0, 8*len(f.index.Nodes))
	for _, node := range f.index.Nodes {
		key, ok := f.ssn.Signers.NodeKey(plugin, node)
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

// ofNode returns the fingerprint of a node's current state: its Node object, its remaining resources, and its pods. A
// node that has changed has another Node object.
func (f *Fingerprinter) ofNode(node int32) uint64 {
	if f.nodes == nil {
		f.nodes, f.versions = make([]uint64, len(f.index.Nodes)), make([]uint32, len(f.index.Nodes))
	}
	if version := f.index.Version(node) + 1; f.versions[node] != version {
		all := f.index.Nodes
		f.versions[node] = version
		f.nodes[node] = f.crossSession.Nodes.FingerprintOf(node, all, version > 1, func(number uint64) uint64 { return f.makeNode(all[node], number) })
	}
	return f.nodes[node]
}

// makeNode computes the fingerprint of a node. number identifies the Node object (crosssession.Nodes).
func (f *Fingerprinter) makeNode(node *api.NodeInfo, number uint64) uint64 {
	b := keybytes.Text(make([]byte, 0, 256), node.Name)
	b = appendNumber(b, number)
	for _, r := range []*api.Resource{node.Idle, node.Releasing, node.Pipelined, node.Allocatable} {
		b = f.appendResource(b, r)
	}
	b = appendNumber(b, uint64(node.Allocatable.MaxTaskNum))
	pods := uint64(0)
	for _, task := range node.Tasks { // the map is by pod name; a new pod of the same name has another UID
		pods += maphash.String(f.crossSession.Seed, string(task.UID))
	}
	b = appendNumber(appendNumber(b, uint64(len(node.Tasks))), pods)
	if node.ResourceUsage != nil {
		b = appendNumber(b, uint64(node.ResourceUsage.MetricsTime.UnixNano()))
	}
	return f.bytes(keybytes.Flag(b, node.OversubscriptionNode, node.OfflineJobEvicting))
}

func (f *Fingerprinter) appendResource(b []byte, r *api.Resource) []byte {
	b = keybytes.Float(b, r.MilliCPU, r.Memory)
	if len(r.ScalarResources) == 0 { // iterating over an empty map takes longer than the rest of this function
		return appendNumber(b, 0)
	}
	scalars := uint64(0)
	for name, value := range r.ScalarResources {
		scalars += f.bytes(keybytes.Float(append(make([]byte, 0, 64), name...), value))
	}
	return appendNumber(b, scalars)
}

// OfSession returns the fingerprint of the conf, of the pods with required anti-affinity, and of the cluster's resources,
// on which dominant shares of tasks depend. If anti-affinity terms of these pods select namespaces by label, it covers
// the labels of all namespaces.
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
	pods, selectNamespaces := uint64(0), false
	for name, node := range f.ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			selectNamespaces = selectNamespaces || selectsNamespaces(info)
			at, known := f.index.Number(name)
			if !known {
				return 0
			}
			number := f.crossSession.Nodes.NumberOf(at, f.index.Nodes)
			pods += f.bytes(appendNumber(keybytes.Text(keybytes.Text(nil, name), string(info.GetPod().UID)), number))
		}
	}
	b = appendNumber(b, pods)
	if selectNamespaces {
		namespaces, err := f.ssn.InformerFactory().Core().V1().Namespaces().Lister().List(labels.Everything())
		if err != nil {
			return 0
		}
		b = appendNumber(b, f.ofNamespaces(namespaces))
	}
	f.session = max(f.bytes(b), 1)
	return f.session
}

// ofNamespaces returns the fingerprint of the labels of the namespaces.
func (f *Fingerprinter) ofNamespaces(namespaces []*v1.Namespace) (sum uint64) {
	for _, namespace := range namespaces {
		sum += f.bytes(keybytes.Map(keybytes.Text(nil, namespace.Name), namespace.Labels))
	}
	return sum
}

// selectsNamespaces reports whether a required anti-affinity term of the pod selects namespaces by label. Kubernetes
// represents a missing namespaceSelector by a selector that selects nothing, and an empty one by a selector that selects
// everything. Neither reads labels.
func selectsNamespaces(info fwk.PodInfo) bool {
	return slices.ContainsFunc(info.GetRequiredAntiAffinityTerms(), func(term fwk.AffinityTerm) bool {
		requirements, selectable := term.NamespaceSelector.Requirements()
		return selectable && len(requirements) > 0
	})
}
