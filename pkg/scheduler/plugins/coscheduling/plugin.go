// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
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

// Spec declares the plugin.
func Spec() framework.PluginSpec { return specWith((&topologies{}).of) }

// specWith returns the plugin's spec. The plugin calls topologyOf to read the ClusterNetworkTopology.
func specWith(topologyOf func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error)) framework.PluginSpec {
	known := &framework.Kept[*memory]{}
	return framework.PluginSpec{
		Name: Name,
		Doc:  "Schedules gangs by Koordinator's settings: strict mode, gang groups, match policies, waiting times, network topology.",
		Arguments: []framework.Argument{
			{Name: argTimeout, Type: framework.Duration, Default: "600s", Doc: "Waiting time of a gang that sets none."},
			{
				Name: argPolicy, Type: framework.String, Default: string(gangs.OnceSatisfied), Enum: policies(),
				Doc: "Match policy of a gang that has settings but sets no match policy: which pods count towards the minimum.",
			},
			{
				Name: argStarves, Type: framework.Duration, Default: "0s",
				Doc: "How long any gang waits before nodes are reserved for it, for one gang of a queue at a time; `0s` disables reservations.",
			},
			{Name: argDrain, Type: framework.Duration, Default: "30m", Doc: "How long pods on reserved nodes may take to terminate before the reservation ends."},
			{Name: argPercent, Type: framework.Int, Default: "10", Doc: "How much of the cluster may be reserved at a time, in percent of each resource; 1 to 100."},
		},
		PendingCategories: map[string]framework.PendingCategory{
			gangs.WaitingForGroup: framework.PendingGroup, gangs.InvalidGroup: framework.PendingGroup, gangs.TimedOut: framework.PendingBackoff,
		},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			defaults, err := loadDefaults(args)
			terms, termsErr := loadReservations(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				memory, err := known.Of(h, newMemory)
				if err != nil {
					return nil, err
				}
				return &plugin{
					defaults: defaults, known: map[api.JobID]reading{}, alarm: &alarm{wake: h.Wake},
					terms: terms, memory: memory,
					topology: func() (*v1alpha1.ClusterNetworkTopology, error) { return topologyOf(h) },
					nodes:    func() corelisters.NodeLister { return h.InformerFactory().Core().V1().Nodes().Lister() },
				}, nil
			}, errors.Join(err, termsErr)
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

// loadReservations parses the plugin's arguments for node reservations.
func loadReservations(args framework.Arguments) (reservationTerms, error) {
	terms := reservationTerms{drain: 30 * time.Minute, percent: 10}
	var errs []error
	for _, d := range []struct {
		name string
		into *time.Duration
	}{{argStarves, &terms.after}, {argDrain, &terms.drain}} {
		text, ok := args[d.name].(string)
		if !ok {
			continue
		}
		var err error
		if *d.into, err = time.ParseDuration(text); err != nil || *d.into < 0 {
			errs = append(errs, fmt.Errorf("%s: found %q, want a duration such as 30m", d.name, text))
		}
	}
	args.GetInt(&terms.percent, argPercent)
	if terms.percent < 1 || terms.percent > 100 {
		errs = append(errs, fmt.Errorf("%s: found %d, want a percentage from 1 to 100", argPercent, terms.percent))
	}
	return terms, errors.Join(errs...)
}

// loadDefaults parses the plugin's arguments for the settings of a gang without annotations.
func loadDefaults(args framework.Arguments) (gangs.Settings, error) {
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

// memory is the part of the plugin's state that survives a reload of the configuration. No tenant can change it.
type memory struct {
	reservations reservations
	// limits records, for each gang, since when it is admitted and waits, or when it last timed out.
	limits map[api.JobID]knownLimit
	// rooms records whether sessions found room on nodes for gang groups in a backoff.
	rooms roomChecks
}

func newMemory(framework.Handle) (*memory, []cache.SharedIndexInformer, error) {
	return &memory{reservations: reservations{active: map[api.QueueID]*reservation{}, pauses: map[string]*pause{}, tried: map[string]time.Time{}}}, nil, nil
}

type plugin struct {
	// defaults are the settings of a gang without annotations.
	defaults gangs.Settings
	// known caches the parsed settings of each gang.
	known map[api.JobID]reading
	alarm *alarm
	// terms are the plugin's arguments for node reservations.
	terms reservationTerms
	*memory
	// topology returns the ClusterNetworkTopology, and nodes returns the lister of nodes. The plugin calls them only
	// if a gang has a topology rule.
	topology func() (*v1alpha1.ClusterNetworkTopology, error)
	nodes    func() corelisters.NodeLister
	// session is the open session; nil between sessions. observer is notified of reservations; nil if no observer is
	// configured.
	session  *session
	observer gangs.ReservationObserver
}

var (
	_ framework.SessionScoped = (*plugin)(nil)
	_ framework.Starter       = (*plugin)(nil)
	_ framework.Closer        = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// Defaults returns the settings of a gang without annotations.
func (p *plugin) Defaults() gangs.Settings { return p.defaults }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.observer, _ = ssn.Reporter.(gangs.ReservationObserver)
	s := p.open(ssn)
	p.session = s
	s.noteSatisfied()
	s.network = newNetwork(ssn, s.gangs, p.topology, p.nodes)
	s.reservations = &reservationManager{ssn: ssn, terms: p.terms, known: &p.reservations, observer: p.observer, network: s.network, gangGroup: s.GangGroup}
	for _, gang := range s.gangs {
		s.reportInvalidSettings(gang)
		gang.setMinimum()
	}
	s.formGangGroups()
	s.holdBack()
	p.rooms = s.rooms
	s.addPredicates()
	ssn.AddJobValidFn(Name, s.valid)
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// addPredicates registers the plugin's predicate. It refuses nodes that are reserved for other gangs, and then nodes
// outside of the domain in which the gang must be placed.
func (s *session) addPredicates() {
	if s.reserved = s.reservations.keepReserved(); s.reserved == nil && s.network == nil {
		return
	}
	s.ssn.AddPredicateFn(Name, func(task *api.TaskInfo, node *api.NodeInfo) error {
		if err := s.reserved.predicate(task, node); err != nil {
			return err
		}
		return s.network.predicate(task, node)
	})
}

// OnSessionStart implements framework.Starter.
func (p *plugin) OnSessionStart(*framework.Session) { p.session.reservations.reconcile(time.Now()) }

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) {
	now := time.Now()
	p.session.reservations.noteWaiting(now)
	p.alarm.set(p.session.limitWaits(now))
	p.session = nil
}

// Close implements framework.Closer.
func (p *plugin) Close() {
	p.alarm.close()
	if p.observer != nil {
		p.observer.Reservations(0) // the plugin of the next configuration reports its own number of reservations
	}
}

// session is the plugin's state in one session.
type session struct {
	framework.DefaultSigner
	ssn *framework.Session
	// memory is the plugin's state that outlives the session.
	memory *memory
	// rooms records whether sessions found room on nodes for gang groups in a backoff. endEarly adds the results of this
	// session.
	rooms roomChecks
	// gangs has the gangs with settings.
	gangs map[api.JobID]*gang
	// network has the layers and domains of the network; nil if no gang has a topology rule.
	network      *network
	reservations *reservationManager
	// reserved enforces the node reservations for gangs in this session; nil while no nodes are reserved.
	reserved *reservationFilter
	// limits has, by the ID of the gang group, the waiting time and the backoff of its gangs. A gang without a gang
	// group has an entry of its own.
	limits map[string]*admissionDeadline
}

// gang is a gang with settings.
type gang struct {
	*api.JobInfo
	gangs.Settings
	// id identifies the gang group.
	id      string
	invalid []gangs.InvalidSetting
	// minimum is the number of members that the PodGroup's minimum requires.
	minimum int32
	// satisfied reports whether the gang has reached its minimum once or has ended, so that the minimum no longer
	// applies.
	satisfied bool
	// limit records since when the gang is admitted and waits, or when it last timed out; nil if neither.
	limit *knownLimit
	// gangGroup is nil while the gang's group cannot be formed. waits is the reason why the gang may not be placed;
	// nil if it may.
	gangGroup *binding.GangGroup
	waits     *api.ValidateResult
}

func (p *plugin) open(ssn *framework.Session) *session {
	s := &session{ssn: ssn, memory: p.memory, rooms: p.rooms, gangs: map[api.JobID]*gang{}}
	known := make(map[api.JobID]reading, len(p.known))
	for uid, job := range ssn.Jobs {
		if !hasSettings(job) {
			if job.PodGroup != nil { // the user may have removed the settings
				conditions.Drop(&job.PodGroup.Status, TimeLimit, InvalidSettings, Satisfied, Whole)
			}
			continue
		}
		read := p.read(job)
		known[uid] = read
		s.gangs[uid] = &gang{JobInfo: job, Settings: read.settings, id: read.id, invalid: read.invalid, minimum: job.MinAvailable}
	}
	p.known = known
	return s
}
