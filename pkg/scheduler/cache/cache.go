// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/setaside"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/sums"
)

// How long a gang whose transaction failed waits before it is tried again: the wait doubles from the first to the
// last value, with jitter.
const (
	firstRetry  = time.Second
	lastRetry   = 60 * time.Second
	retryJitter = 0.2
)

// Urgency says how soon a change wants a scheduling cycle.
type Urgency int

const (
	// WakeDelayed is for changes that cannot place a pending task, such as a pod that started to run: a cycle half a second
	// later is early enough.
	WakeDelayed Urgency = iota
	// WakeNow is for changes that may let a pending task be placed.
	WakeNow
)

// Observer is told of what happens, for metrics. Its methods must not block.
type Observer interface {
	binding.Observer
	// StatusRefused tells of a status of an object of that kind that the API server refused for good.
	StatusRefused(kind string)
	// EventDone tells what became of an event: written, refused by the API server, or lost.
	EventDone(result string)
}

// Cache is the scheduler's picture of the cluster and the keeper of its bind transactions.
type Cache struct {
	// books are what sessions see of the cluster, and sources where it comes from.
	books   *books.Books
	sources *sources
	load    *load
	shards  *shards
	// Recorder records events.
	Recorder record.EventRecorder

	rest      *rest.Config
	kube      kubernetes.Interface
	vc        vcclient.Interface
	podGroups vclisters.PodGroupLister
	queues    vclisters.QueueLister
	// podGroupsAt is the version up to which PodGroups are watched.
	podGroupsAt func() string

	engine  *binding.Engine
	backoff *binding.Backoff
	status  *statuswriter.Writer
	// events writes what the recorder passes on; nil on a cache in memory.
	events  *events.Writer
	evictor *evictor
	changes *changes
	aside   *setaside.Aside
	// hyperNodes are what sessions see of HyperNodes.
	hyperNodes *hyperNodes
	wake       func(Urgency)
	observer   Observer

	responsible *responsible

	informers runningInformers

	// openMu guards open, and is held while transactions are handed to the engine and members are cancelled. It is never
	// held together with the cache's mutex.
	openMu sync.Mutex
	open   map[api.JobID]*binding.Transaction
	// inOrder are the open transactions, and some that were submitted, in the order in which the session came to them.
	inOrder []*binding.Transaction
	// lastOpen is the gang that was added to last: while a statement commits, it stays the same.
	lastOpen api.JobID

	delays *delays

	// backAt is when the API server came back from its last outage, in nanoseconds since 1970.
	backAt atomic.Int64

	// reportMu guards what is remembered of gangs for reports.
	reportMu sync.Mutex
	// failures says what the last transaction of a gang failed of, until it is bound or something else keeps it from
	// being placed.
	failures map[api.JobID]gangFailure
	arrivals map[api.JobID]arrival
	// incomplete are the gangs whose transactions the session that closes has given up before any step began.
	incomplete map[api.JobID]bool
	// retold is when the pods of a gang were last told again what they wait for.
	retold map[api.JobID]time.Time
	// strayed are the gangs that sessions do not see, and since when.
	strayed map[api.JobID]astray
}

var (
	_ framework.Cache       = (*Cache)(nil)
	_ framework.Snapshotter = (*Cache)(nil)
	_ framework.Handle      = (*Cache)(nil)
	_ binding.Gatekeeper    = (*Cache)(nil)
	_ binding.Binder        = (*Cache)(nil)
	_ binding.Ledger        = (*Cache)(nil)
)

// Settings are what a cache is made with beside its clients.
type Settings struct {
	// Rest is what plugins make clients of other kinds with.
	Rest *rest.Config
	// SchedulerNames are those by which pods ask for this scheduler.
	SchedulerNames []string
	// DefaultQueue is the queue of PodGroups that name none.
	DefaultQueue string
	// NodeSelectors are labels, as name:value, of which a node must have one to be used; none admits all.
	NodeSelectors []string
	// IgnoredProvisioners are those whose volumes do not count against what a node can attach.
	IgnoredProvisioners []string
	// Resync is how often informers show all objects again; 0 for never.
	Resync time.Duration
	// Events is where events go.
	Events events.Outlet
}

// On makes the cache on these clients. It calls nobody.
func On(kube kubernetes.Interface, vc vcclient.Interface, settings Settings, observer Observer, wake func(Urgency)) (*Cache, error) {
	responsible, err := newResponsible(settings.SchedulerNames, settings.NodeSelectors)
	if err != nil {
		return nil, err
	}
	sources, err := newSources(kube, vc, settings.Resync)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		rest: settings.Rest, kube: kube, vc: vc, sources: sources, responsible: responsible, wake: wake, observer: observer,
		aside:      setaside.New(),
		open:       map[api.JobID]*binding.Transaction{},
		failures:   map[api.JobID]gangFailure{},
		arrivals:   map[api.JobID]arrival{},
		incomplete: map[api.JobID]bool{},
		retold:     map[api.JobID]time.Time{},
		strayed:    map[api.JobID]astray{},
		delays:     newDelays(),
	}
	c.books = books.New(books.Config{
		Pod: responsible.forPod, Node: responsible.forNode, DefaultQueue: settings.DefaultQueue,
		Volumes: newVolumes(sources.kube, settings.IgnoredProvisioners).of,
	})
	c.load = &load{rest: settings.Rest, books: c.books}
	c.shards = newShards(c.books, vc)
	c.Recorder = events.NewRecorder(settings.Events)
	c.backoff = binding.NewBackoff(firstRetry, lastRetry, retryJitter, func() { wake(WakeNow) })
	podGroups := sources.volcano.Scheduling().V1beta1().PodGroups()
	queues := sources.volcano.Scheduling().V1beta1().Queues()
	c.podGroups, c.queues = podGroups.Lister(), queues.Lister()
	c.podGroupsAt = podGroups.Informer().LastSyncResourceVersion
	core := sources.kube.Core().V1()
	indexPods(core.Pods().Informer(), settings.SchedulerNames)
	hyperNodes := sources.volcano.Topology().V1alpha1().HyperNodes()
	c.hyperNodes = newHyperNodes(hyperNodes.Lister(), core.Nodes().Lister())
	setaside.Trim(c.books.Nodes.Sums.Count, core.Pods().Informer(), core.Nodes().Informer(), podGroups.Informer(), queues.Informer(), hyperNodes.Informer())
	c.engine = binding.New(c, c, c, stuckReporter{observer, c})
	c.status = c.newStatusWriter()
	c.evictor = newEvictor(c)
	c.changes = newChanges(c, podGroups.Informer(), queues.Informer(), hyperNodes.Informer())
	return c, nil
}

// clients makes the clients of the bind path, and one for events. Bindings and pods travel as protobuf; Volcano's objects
// are custom resources, which the API server speaks in JSON only.
func clients(config *rest.Config) (kube, forEvents kubernetes.Interface, vc vcclient.Interface, err error) {
	proto := rest.CopyConfig(config)
	proto.ContentType = "application/vnd.kubernetes.protobuf"
	if kube, err = kubernetes.NewForConfig(proto); err != nil {
		return nil, nil, nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	if forEvents, err = kubernetes.NewForConfig(proto); err != nil {
		return nil, nil, nil, fmt.Errorf("making the client for events: %w", err)
	}
	if vc, err = vcclient.NewForConfig(config); err != nil {
		return nil, nil, nil, fmt.Errorf("making the Volcano client: %w", err)
	}
	return kube, forEvents, vc, nil
}

// Start starts informers and writers and returns once the initial lists are really in the cache. They run until lifetime
// ends; when ctx ends before the cache is full, they end too.
func (c *Cache) Start(ctx, lifetime context.Context) error {
	lifetime, end := context.WithCancel(lifetime)
	endEarly := context.AfterFunc(ctx, end)
	if err := c.runInformers(lifetime); err != nil {
		end()
		return err
	}
	if err := c.AwaitInformers(lifetime); err != nil { // first: nodes are counted by what plugins watch
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	c.sources.start(lifetime.Done())
	if err := c.sources.awaitVolumes(lifetime); err != nil { // before pods, of which they count
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	c.changes.feedPods()
	go c.load.run(lifetime)
	c.status.Start(lifetime)
	if c.events != nil {
		c.events.Start(lifetime)
	}
	if err := c.awaitInitialLists(lifetime); err != nil {
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	if !endEarly() {
		return fmt.Errorf("filling the cache: %w", ctx.Err())
	}
	return nil
}

// NotSynced names the kinds whose initial list has not been read.
func (c *Cache) NotSynced() []string {
	kinds := c.sources.notSynced()
	if len(c.informers.unlisted()) > 0 {
		kinds = append(kinds, "what plugins watch")
	}
	slices.Sort(kinds)
	return kinds
}

// Drain lets the transactions in flight end: new ones are refused, and when the context ends those whose members
// are not being bound yet are rolled back. An error names what could not be ended. What was told last still goes out,
// within statuswriter.FlushLimit: the grace is over by then when it matters most.
func (c *Cache) Drain(ctx context.Context) error {
	err := c.engine.Drain(ctx)
	c.backoff.Stop()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), statuswriter.FlushLimit)
	defer cancel()
	c.status.Stop(flush)
	if c.events != nil {
		c.events.Stop(flush) // last: the others still tell
	}
	return err
}

// Abort stops at once, without another write: the lease is lost and the next leader recovers.
func (c *Cache) Abort() {
	c.engine.Abort()
	c.backoff.Stop()
	c.status.Abort()
}

// Blocked says why a gang is to be left out of sessions for now: it was set aside, it waits out its backoff, or members
// of a transaction that has not ended have failed.
func (c *Cache) Blocked(gang api.JobID) (reason string, blocked bool) {
	if _, message, is := c.aside.Why(gang); is {
		return message, true
	}
	if c.engine.Failing(gang) && !c.isIncomplete(gang) {
		return "members of its bind transaction failed, and it has not ended yet", true
	}
	if c.aside.Pausing(gang) {
		return "the scheduler looks for the object that makes its cycles panic, and does not see all of the gang's queue", true
	}
	reason, _, blocked = c.backoff.Blocked(gang)
	return reason, blocked
}

// Avoid lists the nodes that a gang failed on and is better placed without.
func (c *Cache) Avoid(gang api.JobID) []string { return c.backoff.Avoid(gang) }

// RetryAll ends every gang's wait and lets in again what is set aside, as when a new configuration came into force.
func (c *Cache) RetryAll() {
	c.aside.Forgive()
	c.backoff.RetryAll()
}

// APIServerBack has all that failed while the API server was away tried again at once: transactions in flight go on,
// statuses and events are written, and every gang's wait ends, also that of a gang whose transaction is in flight and fails. It does
// not block.
func (c *Cache) APIServerBack() {
	c.backAt.Store(time.Now().UnixNano()) // first: a transaction that ends from here on sees it, the wait of an earlier one ends
	c.backoff.RetryAll()
	c.engine.RetryNow()
	c.status.RetryNow()
	if c.events != nil {
		c.events.RetryNow()
	}
}

// triedInOutage is true if the API server came back while the transaction, which has ended, was in flight. What it failed of
// may be over: its gang waits no longer than those that waited already when the API server came back.
func (c *Cache) triedInOutage(r binding.Result) bool {
	return time.Now().Add(-r.Took).UnixNano() < c.backAt.Load()
}

// Books returns what the cache holds of the cluster.
func (c *Cache) Books() *books.Books { return c.books }

// KubeClient returns the client plugins may use.
func (c *Cache) KubeClient() kubernetes.Interface { return c.kube }

// RestConfig returns what clients are made with, the caller's own.
func (c *Cache) RestConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// HyperNodes returns the HyperNodes that are sound.
func (c *Cache) HyperNodes() *api.HyperNodesInfo { return c.hyperNodes.current() }

// CountResources has nodes and pods counted by what the Counter knows.
func (c *Cache) CountResources(counter sums.Counter) { c.books.Nodes.Sums.Use(counter) }

// Wake has the loop run a cycle, because something changed that may let a pending task be placed.
func (c *Cache) Wake() { c.wake(WakeNow) }

// InformerFactory returns the informers of Kubernetes' objects.
func (c *Cache) InformerFactory() informers.SharedInformerFactory { return c.sources.kube }

// VolcanoInformerFactory returns the informers of Volcano's objects.
func (c *Cache) VolcanoInformerFactory() vcinformers.SharedInformerFactory { return c.sources.volcano }

// EventRecorder returns the recorder that drops an event that would only repeat the last one.
func (c *Cache) EventRecorder() record.EventRecorder { return c.Recorder }

func logger() klog.Logger { return klog.Background().WithName("cache") }
