// SPDX-License-Identifier: Apache-2.0

// Package coscheduling gives gangs terms of their own: strict or not, groups of gangs, which members count for the minimum.
//
// They are read from the annotations of Volcano's PodGroup (package gangs). A PodGroup without any is as it is without the
// plugin. Each session is told anew:
//
//   - the least members a gang is placed with (minimum.go): all of them for a strict one, none for one that is satisfied;
//   - its unit (units.go): the gangs it is placed and bound with, and what each asks for at the barrier;
//   - whether it may be placed now: a group waits for each of its gangs, and one whose waiting time was up for the end of its backoff
//     (timelimit.go);
//   - how its members are divided over the domains of the network (topologies.go, gathering.go, gatherhome.go; package gather);
//   - which nodes are reserved for gangs that starve, with or without settings (reservation.go);
//   - what of its settings is mistaken, as a condition and an event on the PodGroup (tell.go).
package coscheduling

import (
	"fmt"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = gangs.Plugin

const (
	argTimeout = "defaultTimeout"
	argPolicy  = "defaultMatchPolicy"
	argStarves = "starvationAfter"
	argDrain   = "drainTimeout"
	argPercent = "reservedPercent"
)

// Spec tells of the plugin.
func Spec() framework.PluginSpec { return specWith((&topologies{}).of) }

// specWith is the plugin with a source of the cluster's topology.
func specWith(topologyOf func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error)) framework.PluginSpec {
	known := &memory{reservations: reservations{active: map[api.QueueID]*reservation{}, pauses: map[string]*pause{}, tried: map[string]time.Time{}}}
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Reads what gangs say in Koordinator's words: strict or not, groups of gangs, match policies, waiting times.",
		Arguments: []framework.Argument{
			{Name: argTimeout, Type: framework.Duration, Default: "600s", Doc: "How long a gang waits that names no waiting time."},
			{
				Name: argPolicy, Type: framework.String, Default: string(gangs.OnceSatisfied), Enum: policies(),
				Doc: "Which members count for the minimum of a gang that has settings and names no match policy.",
			},
			{
				Name: argStarves, Type: framework.Duration, Default: "0s",
				Doc: "How long a gang of any kind waits before nodes are reserved for it, one gang of a queue at a time; `0s` reserves none.",
			},
			{Name: argDrain, Type: framework.Duration, Default: "30m", Doc: "How long the pods on reserved nodes have to end before the reservation is given up."},
			{Name: argPercent, Type: framework.Int, Default: "10", Doc: "How much of the cluster may be reserved at a time, in percent of each resource, 1 to 100."},
		},
		Validate: func(args framework.Arguments) error {
			if _, err := Defaults(args); err != nil {
				return err
			}
			_, err := loadReservations(args)
			return err
		},
		New: func(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
			return newPlugin(args, h, topologyOf, known)
		},
		LeavesTasks: true,
	}
}

func policies() []string {
	var names []string
	for _, policy := range gangs.MatchPolicies {
		names = append(names, string(policy))
	}
	return names
}

// loadReservations reads the arguments of reservations.
func loadReservations(args framework.Arguments) (reservationTerms, error) {
	terms := reservationTerms{drain: 30 * time.Minute, percent: 10}
	for name, into := range map[string]*time.Duration{argStarves: &terms.after, argDrain: &terms.drain} {
		text, ok := args[name].(string)
		if !ok {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return terms, fmt.Errorf("%s: found %q, want a duration such as 30m", name, text)
		}
		*into = d
	}
	args.GetInt(&terms.percent, argPercent)
	if terms.percent < 1 || terms.percent > 100 {
		return terms, fmt.Errorf("%s: found %d, want a percentage from 1 to 100", argPercent, terms.percent)
	}
	return terms, nil
}

// Defaults are the settings of a gang that says nothing, by the plugin's arguments, whose types are checked.
func Defaults(args framework.Arguments) (gangs.Settings, error) {
	defaults := gangs.Settings{Mode: gangs.NonStrict, MatchPolicy: gangs.OnceSatisfied, WaitingTime: gangs.DefaultWaitingTime}
	if text, ok := args[argTimeout].(string); ok {
		timeout, err := time.ParseDuration(text)
		if err != nil || timeout <= 0 {
			return defaults, fmt.Errorf("%s: found %q, want a positive duration such as 600s", argTimeout, text)
		}
		defaults.WaitingTime = timeout
	}
	if policy, ok := args[argPolicy].(string); ok {
		defaults.MatchPolicy = gangs.MatchPolicy(policy)
	}
	return defaults, nil
}

// newPlugin builds the plugin. Its errors are those of Spec().Validate.
func newPlugin(args framework.Arguments, h framework.Handle, topologyOf func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error), known *memory) (framework.Plugin, error) {
	defaults, err := Defaults(args)
	if err != nil {
		return nil, err
	}
	terms, err := loadReservations(args)
	if err != nil {
		return nil, err
	}
	return &plugin{
		defaults: defaults, known: map[api.JobID]reading{}, alarm: &alarm{wake: h.Wake},
		terms: terms, memory: known,
		topology: func() (*v1alpha1.ClusterNetworkTopology, error) { return topologyOf(h) },
		nodes:    func() corelisters.NodeLister { return h.InformerFactory().Core().V1().Nodes().Lister() },
	}, nil
}

// memory is what is kept from one configuration to the next, and no tenant can write.
type memory struct {
	reservations reservations
	// limits are the time limits of gangs.
	limits map[api.JobID]knownLimit
}

type plugin struct {
	// defaults are the settings of a gang that says nothing.
	defaults gangs.Settings
	// known are the gangs' settings as they were read last.
	known map[api.JobID]reading
	// crowded are the groups that were sent back and that no idle nodes had room for since, by their ids.
	crowded map[string]bool
	alarm   *alarm
	// terms are those of reservations.
	terms reservationTerms
	*memory
	// topology and nodes are asked for where a gang is to be gathered.
	topology func() (*v1alpha1.ClusterNetworkTopology, error)
	nodes    func() corelisters.NodeLister
	// session is the one that is open, and observer that of sessions.
	session  *session
	observer gangs.ReservationObserver
}

var (
	_ framework.SessionScoped = (*plugin)(nil)
	_ framework.Closer        = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := p.open(ssn)
	p.session, p.observer = s, observerOf(ssn)
	s.noteSatisfied()
	s.gatherGangs()
	for _, gang := range s.gangs {
		s.tellMistakes(gang)
		gang.setMinimum()
	}
	s.formUnits()
	s.holdBack()
	s.judge()
	ssn.AddJobValidFn(Name, s.valid)
}

// unobserved is the observer of reservations where there is none.
type unobserved struct{}

func (unobserved) ReservationEnded(gangs.ReservationEnd) {}
func (unobserved) Reservations(int)                      {}

// observerOf returns the session's observer if it is one of reservations.
func observerOf(ssn *framework.Session) gangs.ReservationObserver {
	if observer, ok := ssn.Observer().(gangs.ReservationObserver); ok {
		return observer
	}
	return unobserved{}
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return answers{p.session} }

// judge registers what the plugin says of nodes: of those that are reserved, and then of those outside of the domain where a gang is to lie.
func (s *session) judge() {
	if s.reserved = s.keepReserved(); s.reserved == nil && s.network == nil {
		return
	}
	s.AddPredicateFn(Name, func(task *api.TaskInfo, node *api.NodeInfo) error {
		if err := s.reserved.predicate(task, node); err != nil {
			return err
		}
		return s.network.predicate(task, node)
	})
	s.PredicateFirst(Name)
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) {
	now := time.Now()
	p.session.noteWaiting(now)
	p.alarm.set(p.session.limitWaits(now))
	p.session = nil
}

// Close implements framework.Closer.
func (p *plugin) Close() {
	p.alarm.close()
	if p.observer != nil {
		p.observer.Reservations(0) // the configuration that follows counts its own
	}
}

// session is the plugin's part in one session.
type session struct {
	*framework.Session
	plugin *plugin
	// gangs are those that have settings.
	gangs map[api.JobID]*gang
	// network is nil while no gang is to be gathered.
	network *network
	// reserved is nil while no nodes are reserved.
	reserved *reservationFilter
	// limits are the groups of these, by their ids, and the gangs that are alone.
	limits map[string]*limited
}

// gang is one that has settings.
type gang struct {
	*api.JobInfo
	gangs.Settings
	// id names its group.
	id       string
	mistakes []gangs.Mistake
	// minimum is how many members its minimum asks for by what its PodGroup says.
	minimum int32
	// satisfied is true if the minimum is not asked for any more.
	satisfied bool
	// limit is what is known of its time limit; nil while nothing is.
	limit *knownLimit
	// unit is nil while the group cannot be formed, for which waits has the reason.
	unit  *binding.Unit
	waits *api.ValidateResult
}

func (p *plugin) open(ssn *framework.Session) *session {
	s := &session{Session: ssn, plugin: p, gangs: map[api.JobID]*gang{}}
	known := make(map[api.JobID]reading, len(p.known))
	for uid, job := range ssn.Jobs {
		if !hasSettings(job) {
			continue
		}
		read := p.read(job)
		known[uid] = read
		s.gangs[uid] = &gang{JobInfo: job, Settings: read.settings, id: read.id, mistakes: read.mistakes, minimum: job.MinAvailable}
	}
	p.known = known
	return s
}
