// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang of unlike members that fits into none of its node groups is searched for long, and mostly the next session finds
// what the last one did. So why it did not fit is carried over from session to session, with a print of all that it follows
// from: the gang, the nodes it may lie on, and what verdicts on these may depend on. Where that is more than can be named, the
// print is 0 and nothing is carried over.

// carried is why a gang was not placed.
type carried struct {
	print       uint64
	explanation framework.GangExplanation
	wait        framework.Wait
}

// printer makes prints.
type printer struct {
	a *allocation
	// nodes are the prints of nodes, by board number, and at 1 + the version each is of.
	nodes []uint64
	at    []uint32
	// world is the print of what verdicts on any node may depend on; 0 when that is more than can be named.
	world uint64
	known bool
}

func (a *allocation) newPrinter() *printer {
	return &printer{a: a, nodes: make([]uint64, len(a.board.nodes)), at: make([]uint32, len(a.board.nodes))}
}

func (p *printer) bytes(b []byte) uint64 { return maphash.Bytes(p.a.memory.seed, b) }

// printOf returns the print of what decides on a gang that is to be placed in groups; 0 for none.
func (a *allocation) printOf(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups) uint64 {
	a.inside = groups.Plugin
	defer func() { a.inside = "" }()
	if a.demand == nil || !a.plain(a.demand) || len(a.members.nodes) > 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 ||
		len(a.ssn.Avoided(job)) > 0 || options.ServerOpts.ShardingMode != vcutil.NoneShardingMode && options.ServerOpts.ShardingMode != "" {
		return 0
	}
	tasks := sheet.tasks[job.DefaultSubJobID()]
	if !a.queueTakes(job, tasks) {
		return 0
	}
	if a.printer == nil {
		a.printer = a.newPrinter()
	}
	world := a.printer.ofWorld()
	if world == 0 {
		return 0
	}
	b := appendNumber(nil, world)
	b = appendGang(b, a, job, tasks)
	b = appendBool(appendString(b, groups.Plugin), groups.Required)
	for _, path := range slices.Sorted(maps.Keys(groups.Refused)) {
		b = appendString(appendString(b, path), groups.Refused[path])
	}
	for _, group := range groups.Candidates {
		b = appendNumber(appendString(b, group.Path()), a.printer.ofDomain(a.board.group(group)))
	}
	if !groups.Required {
		b = appendNumber(b, a.printer.ofDomain(a.board.everything))
	}
	return max(a.printer.bytes(b), 1)
}

func appendGang(b []byte, a *allocation, job *api.JobInfo, tasks []*api.TaskInfo) []byte {
	b = appendString(appendString(b, string(job.Queue)), string(job.UID))
	b = appendNumber(appendNumber(b, uint64(a.jobLacks(job))), uint64(job.MinAvailable))
	b = appendNumber(b, uint64(job.TaskMinAvailableTotal))
	for _, role := range slices.Sorted(maps.Keys(job.TaskMinAvailable)) {
		b = appendNumber(appendString(b, role), uint64(job.TaskMinAvailable[role]))
	}
	for _, task := range tasks {
		b = appendNumber(appendString(b, string(task.UID)), a.kindOf(task).print)
	}
	return b
}

func appendNumber(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// queueTakes says whether the gang's queue has room for all of the tasks together, so that it refuses none of them.
func (a *allocation) queueTakes(job *api.JobInfo, tasks []*api.TaskInfo) bool {
	all := *tasks[0]
	all.Resreq, all.InitResreq = api.EmptyResource(), api.EmptyResource()
	for _, task := range tasks {
		all.Resreq.Add(task.Resreq)
		all.InitResreq.Add(task.InitResreq)
	}
	return a.ssn.Allocatable(a.ssn.Queues[job.Queue], &all)
}

func (p *printer) ofDomain(d *domain) uint64 {
	b := make([]byte, 0, 8*len(d.nodes))
	for _, node := range d.nodes {
		b = appendNumber(b, p.ofNode(node))
	}
	return p.bytes(b)
}

// ofNode is the print of a node as it is now: of its object, which is another when it changes, of what is left of it, and of
// the pods on it.
func (p *printer) ofNode(node int32) uint64 {
	if version := p.a.board.version[node] + 1; p.at[node] != version {
		p.at[node], p.nodes[node] = version, p.makeNode(p.a.board.nodes[node])
	}
	return p.nodes[node]
}

func (p *printer) makeNode(node *api.NodeInfo) uint64 {
	b := appendString(make([]byte, 0, 256), node.Name)
	b = appendNumber(b, p.a.memory.numberOf(node.Node))
	for _, r := range []*api.Resource{node.Idle, node.Releasing, node.Pipelined, node.Allocatable} {
		b = p.appendResource(b, r)
	}
	b = appendNumber(b, uint64(node.Allocatable.MaxTaskNum))
	pods := uint64(0)
	for uid := range node.Tasks {
		pods += maphash.String(p.a.memory.seed, string(uid))
	}
	b = appendNumber(appendNumber(b, uint64(len(node.Tasks))), pods)
	if node.ResourceUsage != nil {
		b = appendNumber(b, uint64(node.ResourceUsage.MetricsTime.UnixNano()))
	}
	return p.bytes(appendBool(appendBool(b, node.OversubscriptionNode), node.OfflineJobEvicting))
}

func (p *printer) appendResource(b []byte, r *api.Resource) []byte {
	b = appendFloat(appendFloat(b, r.MilliCPU), r.Memory)
	scalars := uint64(0)
	for name, value := range r.ScalarResources {
		scalars += p.bytes(appendFloat(append(make([]byte, 0, 64), name...), value))
	}
	return appendNumber(b, scalars)
}

// ofWorld is the print of the conf, of the largest node, of which explanations tell, and of the pods that keep others away
// by required anti-affinity. Where these select namespaces by label it is 0.
func (p *printer) ofWorld() uint64 {
	if p.known {
		return p.world
	}
	p.known = true
	conf, err := json.Marshal([]any{p.a.ssn.Tiers, p.a.ssn.Configurations})
	if err != nil {
		return 0
	}
	b := p.appendResource(conf, p.a.board.largestNode())
	pods := uint64(0)
	for name, node := range p.a.ssn.NodeMap {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			if selectsNamespaces(info) {
				return 0
			}
			number := p.a.memory.numberOf(node.Node())
			pods += p.bytes(appendNumber(appendString(appendString(nil, name), string(info.GetPod().UID)), number))
		}
	}
	p.world = max(p.bytes(appendNumber(b, pods)), 1)
	return p.world
}

func selectsNamespaces(info fwk.PodInfo) bool {
	return slices.ContainsFunc(info.GetRequiredAntiAffinityTerms(), func(term fwk.AffinityTerm) bool {
		return term.NamespaceSelector != nil && !term.NamespaceSelector.Empty()
	})
}

// carry tells of a gang what was found in the session before, if that follows from the same.
func (a *allocation) carry(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups) bool {
	a.demand, a.print = a.gaugeJob(job, sheet), 0
	if a.print = a.printOf(job, sheet, groups); a.print == 0 {
		return false
	}
	found, ok := a.memory.carriedOver(job.UID, a.print)
	if !ok {
		return false
	}
	found.explanation.Time = a.now()
	a.say(job, sheet, found)
	return true
}

// numberOf numbers objects of nodes: an object has its number for as long as sessions have it.
func (m *memory) numberOf(node *v1.Node) uint64 {
	number, ok := m.objects[node]
	if !ok {
		if number, ok = m.formerObjects[node]; !ok {
			m.numbered++
			number = m.numbered
		}
		m.objects[node] = number
	}
	return number
}
