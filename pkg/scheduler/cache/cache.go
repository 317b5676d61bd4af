// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ledger"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// syncPoll is how often the cache checks whether the initial lists are complete.
const syncPoll = 5 * time.Millisecond

// Urgency is how soon a scheduling cycle must follow a change of the cluster.
type Urgency int

const (
	// WakeDelayed is for changes that cannot let a pending task be placed, such as a pod that started to run. A cycle
	// half a second later suffices.
	WakeDelayed Urgency = iota
	// WakeNow is for changes that may let a pending task be placed.
	WakeNow
)

// Observer is notified of bind transactions, statuses and events, for metrics. Its methods must not block.
type Observer interface {
	binding.Observer
	// StatusRejected reports that the API server rejected a status of an object of this kind, and that the write is not
	// retried.
	StatusRejected(kind string)
	// EventDone reports the result of an event: written, rejected (by the API server), or dropped (too many at once, or
	// the API server was unavailable).
	EventDone(result string)
}

// Cache implements upstream's cache interface. It owns the books and the parts around them: informers, snapshots, the
// ledger of transactions, and reports. Its own methods are for sessions and the scheduling loop. Books, Transactions,
// Quarantine and Handle return its parts for other callers.
type Cache struct {
	books      *books.Books
	sources    *sources
	handlers   *handlers
	changes    *changes
	plugins    *pluginInformers
	load       *load
	shards     *shards
	hyperNodes *hyperNodes

	handle     *Handle
	snapshots  *snapshots
	quarantine *Quarantine
	ledger     *ledger.Ledger
	evictor    *ledger.Evictor
	reports    *report.Reporter
	// vc is the Volcano client whose writes all go to the API server. Sessions get another client, which passes their
	// updates of queues to the status writer (package statuswriter).
	vc vcclient.Interface
}

var (
	_ framework.Cache       = (*Cache)(nil)
	_ framework.Snapshotter = (*Cache)(nil)
)

// Settings configure a cache, in addition to its clients.
type Settings struct {
	// Rest is the client configuration from which plugins create further clients.
	Rest *rest.Config
	// SchedulerNames are the values of spec.schedulerName that select this scheduler.
	SchedulerNames []string
	// DefaultQueue is the queue of PodGroups that name no queue.
	DefaultQueue string
	// NodeSelectors are labels, as name:value. A node must have one of them to be used; an empty list admits all nodes.
	NodeSelectors []string
	// IgnoredProvisioners are provisioners whose volumes do not count against a node's attach limit.
	IgnoredProvisioners []string
	// Resync is how often informers deliver all objects to their handlers again; 0 for never.
	Resync time.Duration
	// Events receives the events that the cache writes. If it is an *events.Writer, it is started and stopped with the
	// cache.
	Events record.EventRecorder
}

// On returns a cache that uses the clients kube and vc. It makes no API call. The cache calls wake when a change needs
// a cycle.
func On(kube kubernetes.Interface, vc vcclient.Interface, settings Settings, observer Observer, wake func(Urgency)) (*Cache, error) {
	responsible, err := newResponsible(settings.SchedulerNames, settings.NodeSelectors)
	if err != nil {
		return nil, err
	}
	sources, err := newSources(kube, vc, settings.Resync)
	if err != nil {
		return nil, err
	}
	core, scheduling := sources.kube.Core().V1(), sources.volcano.Scheduling().V1beta1()
	pods, nodes, podGroups, queues := core.Pods(), core.Nodes(), scheduling.PodGroups(), scheduling.Queues()
	hyperNodes := sources.volcano.Topology().V1alpha1().HyperNodes()
	c := &Cache{sources: sources, vc: vc, handlers: newHandlers(), plugins: &pluginInformers{}}
	c.books = books.New(books.Config{
		Pod: responsible.forPod, Node: responsible.forNode, DefaultQueue: settings.DefaultQueue,
		Volumes: newVolumes(sources.kube, settings.IgnoredProvisioners).of,
		BoundIn: func(pod *v1.Pod) string { return pod.Annotations[binding.QueueAnnotation] },
	})
	c.load = &load{rest: settings.Rest, books: c.books}
	c.shards = newShards(c.books, vc)
	indexPods(pods.Informer(), settings.SchedulerNames)
	c.hyperNodes = newHyperNodes(hyperNodes.Lister(), nodes.Lister())
	quarantine.Trim(c.books.Nodes.Sums.Count, pods.Informer(), nodes.Informer(), podGroups.Informer(), queues.Informer(), hyperNodes.Informer())
	wakeNow, wakeSoon := func() { wake(WakeNow) }, func() { wake(WakeDelayed) }
	c.reports = report.New(report.Config{
		Kube: kube, Volcano: vc, Books: c.books, Pods: pods.Lister(), PodGroups: podGroups.Lister(), Queues: queues.Lister(),
		Events: settings.Events, OwnPod: snapshot.OwnPod, StatusRejected: observer.StatusRejected, WakeSoon: wakeSoon,
	})
	c.ledger = ledger.New(ledger.Config{
		Kube: kube, Volcano: vc, Books: c.books, Reports: c.reports, Pods: pods.Lister(), Nodes: nodes.Lister(),
		PodGroups: podGroups.Lister(), PodGroupsAt: podGroups.Informer().LastSyncResourceVersion,
		Observer: observer, WakeNow: wakeNow, WakeSoon: wakeSoon,
	})
	c.evictor = ledger.NewEvictor(kube, c.books, c.reports)
	c.quarantine = &Quarantine{quarantine.New(), c.reports}
	c.snapshots = &snapshots{books: c.books, nodes: nodes.Lister(), hyperNodes: c.hyperNodes, quarantine: c.quarantine, status: c.reports.Status()}
	c.changes = &changes{
		books: c.books, sources: sources, vc: vc, podGroups: podGroups.Lister(), handlers: c.handlers, ledger: c.ledger, backoff: c.ledger.Backoff(),
		reports: c.reports, hyperNodes: c.hyperNodes, shards: c.shards, responsible: responsible, wake: wake, pods: newGangPods(),
		storage: &storageChanges{c.books, sources.kube, c.handlers, c.ledger.Backoff(), c.reports, responsible, wake},
	}
	c.handle = &Handle{
		rest: settings.Rest, kube: kube, vc: upstream.QueueClient(vc, c.reports.Status().PutQueue), recorder: c.reports.Recorder(), sources: sources,
		plugins: c.plugins, changes: c.changes, hyperNodes: c.hyperNodes, wake: wake,
	}
	c.changes.watch()
	return c, nil
}

// Books returns the scheduler's view of the cluster.
func (c *Cache) Books() *books.Books { return c.books }

// Handle returns the interface that plugins use outside sessions.
func (c *Cache) Handle() *Handle { return c.handle }

// Quarantine returns the quarantine, which keeps harmful objects out of sessions.
func (c *Cache) Quarantine() *Quarantine { return c.quarantine }

// Transactions returns the ledger of bind transactions.
func (c *Cache) Transactions() *ledger.Ledger { return c.ledger }

// Start starts informers and writers, and returns once the initial lists are in the books. Informers and writers run
// until lifetime ends. If ctx ends before Start returns, they end at that time.
func (c *Cache) Start(ctx, lifetime context.Context) error {
	lifetime, end := context.WithCancel(lifetime)
	endEarly := context.AfterFunc(ctx, end)
	if err := c.plugins.startAll(lifetime.Done(), c.sources.known.all()); err != nil {
		end()
		return err
	}
	// Nodes are read after this, because plugins compute resources of nodes from the objects of their own informers.
	if err := c.plugins.await(lifetime); err != nil {
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	c.sources.start(lifetime.Done())
	// The books get pods after this (feedPods), because the volumes of pods count against attach limits.
	if err := c.sources.awaitVolumes(lifetime); err != nil {
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	c.changes.feedPods()
	go c.load.run(lifetime)
	c.reports.Start(lifetime)
	if err := awaitInitialLists(lifetime, c.sources, c.handlers); err != nil {
		end()
		return fmt.Errorf("filling the cache: %w", err)
	}
	if !endEarly() {
		return fmt.Errorf("filling the cache: %w", ctx.Err())
	}
	return nil
}

// awaitInitialLists returns when the initial lists of all informers with handlers are in the books, or when ctx ends.
// It also waits for the lists of objects without handlers that plugins read, such as disruption budgets and device
// claims.
func awaitInitialLists(ctx context.Context, s *sources, h *handlers) error {
	s.await(ctx.Done())
	return wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return h.allHanded(), nil })
}

// NotSynced returns the kinds of objects whose initial list has not been read.
func (c *Cache) NotSynced() []string {
	kinds := c.sources.notSynced()
	if len(c.plugins.unlisted()) > 0 {
		kinds = append(kinds, "objects that plugins watch")
	}
	slices.Sort(kinds)
	return kinds
}

// Drain waits for the transactions in flight to end, and refuses new transactions. When ctx ends, members that are not
// being bound yet are rolled back. The error names the transactions that did not end. Drain still writes the last
// reports, within statuswriter.FlushLimit, even if ctx has ended.
func (c *Cache) Drain(ctx context.Context) error {
	err := c.ledger.Drain(ctx)
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), statuswriter.FlushLimit)
	defer cancel()
	c.reports.Stop(flush)
	return err
}

// Abort stops all transactions at once, without another write, because the lease is lost. The next leader recovers the
// members.
func (c *Cache) Abort() {
	c.ledger.Abort()
	c.reports.Status().Abort()
}

// RetryAll ends every gang's wait and returns quarantined objects to sessions, for example when a new configuration
// takes effect.
func (c *Cache) RetryAll() {
	c.quarantine.objects.Readmit()
	c.ledger.Backoff().RetryAll()
}

// APIServerBack is called when an outage of the API server ends. It retries all failed calls of transactions in flight,
// ends every gang's wait, and writes delayed statuses. It does not block.
func (c *Cache) APIServerBack() {
	c.ledger.ServerBack()
	c.reports.Status().RetryNow()
}

// Blocked returns why sessions currently skip a gang: the gang is quarantined, members of its running transaction have
// failed, its queue is paused while the scheduler searches for an object that makes cycles panic, or the gang waits for
// its backoff.
func (c *Cache) Blocked(gang api.JobID) (reason string, blocked bool) {
	if _, message, is := c.quarantine.objects.Why(gang); is {
		return message, true
	}
	if c.ledger.Failing(gang) {
		return "previous bind attempt failed; rollback in progress", true
	}
	if c.quarantine.objects.IsPaused(gang) {
		return "scheduling of this queue is paused while the scheduler isolates an object that makes it panic", true
	}
	reason, _, blocked = c.ledger.Backoff().Blocked(gang)
	return reason, blocked
}

// Avoid returns the nodes that the gang failed on and should avoid if possible.
func (c *Cache) Avoid(gang api.JobID) []string { return c.ledger.Backoff().Avoid(gang) }

func logger() klog.Logger { return klog.Background().WithName("cache") }
