// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
)

const (
	// statusRefused is the reason of the event that reports a status that the API server refused.
	statusRefused = "StatusRefused"
	// hyperNodeInvalid is the reason of the event of a HyperNode that sessions leave out.
	hyperNodeInvalid = "HyperNodeInvalid"
	// evicted is the reason of the events of an eviction.
	evicted = "Evict"
)

// Config holds the dependencies of a Reporter.
type Config struct {
	Kube    kubernetes.Interface
	Volcano vcclient.Interface
	Books   *books.Books
	// Pods, PodGroups and Queues list the objects that the watch shows.
	Pods      corelisters.PodLister
	PodGroups vclisters.PodGroupLister
	Queues    vclisters.QueueLister
	// Events is where events go. A *events.Writer is started and stopped with the reporter.
	Events events.Outlet
	// OwnPod copies a pod that the watch shows so that it can be written to.
	OwnPod func(*v1.Pod) *v1.Pod
	// StatusRefused is called when the API server refuses a status of an object of this kind for good.
	StatusRefused func(kind string)
	// WakeSoon requests a session within a moment, which has something to report.
	WakeSoon func()
}

// Reporter reports the state of gangs to users. It remembers the reports about a gang until Forget.
type Reporter struct {
	outlet   outlet
	books    *books.Books
	memory   *memory
	delays   *delays
	unseen   *unseen
	writer   *events.Writer // nil if events go elsewhere
	wakeSoon func()
}

// New returns a reporter whose writers are not started.
func New(config Config) *Reporter {
	r := &Reporter{
		books: config.Books, memory: newMemory(config.PodGroups), delays: newDelays(), unseen: newUnseen(), wakeSoon: config.WakeSoon,
	}
	r.writer, _ = config.Events.(*events.Writer)
	recorder := events.NewRecorder(config.Events)
	status := statuswriter.New(statuswriter.Dependencies{
		Kube: config.Kube, Volcano: config.Volcano, Pods: config.Pods, PodGroups: config.PodGroups, Queues: config.Queues,
		Tells:    func(gang api.JobID, pod types.UID) bool { return r.isPending(gang, pod) || r.delays.tells(pod) },
		OwnPod:   config.OwnPod,
		Outdated: config.WakeSoon,
		Refused: func(kind string, object runtime.Object, message string) {
			config.StatusRefused(kind)
			recorder.Event(object, v1.EventTypeWarning, statusRefused, message)
		},
	})
	r.outlet = outlet{books: config.Books, status: status, recorder: recorder}
	return r
}

// isPending reports whether the books have the pod as a task that waits to be placed.
func (r *Reporter) isPending(gang api.JobID, pod types.UID) bool {
	r.books.Lock()
	defer r.books.Unlock()
	job := r.books.Jobs.Get(gang)
	if job == nil {
		return false
	}
	task, ok := job.Tasks[api.TaskID(pod)]
	return ok && task.Status == api.Pending
}

// Recorder returns the recorder that drops an event that would only repeat the last one.
func (r *Reporter) Recorder() *events.Recorder { return r.outlet.recorder }

// Status returns the writer of statuses.
func (r *Reporter) Status() *statuswriter.Writer { return r.outlet.status }

// Start starts the writers, which end with the context or after Stop.
func (r *Reporter) Start(ctx context.Context) {
	r.outlet.status.Start(ctx)
	if r.writer != nil {
		r.writer.Start(ctx)
	}
}

// Stop writes the last reports, until the context ends, and stops the writers.
func (r *Reporter) Stop(ctx context.Context) {
	r.outlet.status.Stop(ctx)
	if r.writer != nil {
		r.writer.Stop(ctx) // after the statuses, because a refused status is reported in an event
	}
}

// RetryNow retries the writes that have failed and wait to be retried.
func (r *Reporter) RetryNow() {
	r.outlet.status.RetryNow()
	if r.writer != nil {
		r.writer.RetryNow()
	}
}

// Bound reports that the pod is bound to the node.
func (r *Reporter) Bound(pod *v1.Pod, node string) {
	r.outlet.recorder.Eventf(pod, v1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
}

// Evicting reports the eviction of one of the gang's pods on its PodGroup.
func (r *Reporter) Evicting(group *api.PodGroup, reason string) {
	r.outlet.gangEvent(group, v1.EventTypeNormal, evicted, brief.Text(reason))
}

// Evicted reports the eviction on the pod.
func (r *Reporter) Evicted(pod *v1.Pod, message string) {
	r.outlet.recorder.Event(pod, v1.EventTypeWarning, evicted, message)
}

// ReportQuarantined reports that sessions leave out the gang from now on.
func (r *Reporter) ReportQuarantined(gang api.JobID, why quarantine.Verdict) {
	r.outlet.gangUnschedulable(gang, why.Reason, why.Message)
}

// Panicked reports objects that are quarantined because of a panic.
func (r *Reporter) Panicked(found []quarantine.Culprit) {
	for _, held := range found {
		logger().Error(nil, "Quarantined an object with which scheduling cycles panic", "kind", held.Kind, "name", held.Name, "panic", held.Message)
		if held.Kind == quarantine.PodGroup {
			r.outlet.gangUnschedulable(api.JobID(held.Name), quarantine.SchedulerPanic, held.Message)
			continue
		}
		object := &v1.ObjectReference{Kind: held.Kind, Name: held.Name}
		r.outlet.recorder.Event(object, v1.EventTypeWarning, quarantine.SchedulerPanic, held.Message)
	}
}

// InvalidHyperNode reports why sessions leave out the HyperNode.
func (r *Reporter) InvalidHyperNode(hyperNode *topologyv1alpha1.HyperNode, message string) {
	named := *hyperNode // objects from a watch have no kind, and the recorder's scheme does not know HyperNodes
	named.SetGroupVersionKind(topologyv1alpha1.SchemeGroupVersion.WithKind("HyperNode"))
	r.outlet.recorder.Event(&named, v1.EventTypeWarning, hyperNodeInvalid, message)
}

// Observe returns an observer of bind transactions that calls next and reports members that wait long.
func (r *Reporter) Observe(next binding.Observer) binding.Observer {
	return delayObserver{next, r}
}

// HasFailed reports whether the gang's last transaction failed and nothing else has kept the gang from being placed since.
func (r *Reporter) HasFailed(gang api.JobID) bool {
	_, failed := r.memory.failure(gang)
	return failed
}

// FailedWithClaims returns the gangs in whose last transaction members with claims failed.
func (r *Reporter) FailedWithClaims() []api.JobID { return r.memory.failedWithClaims() }

// ForgetFailure is called when the gang's last transaction no longer counts as failed.
func (r *Reporter) ForgetFailure(gang api.JobID) { r.memory.forgetFailure(gang) }

// Forget drops what is remembered of a gang whose PodGroup was deleted.
func (r *Reporter) Forget(namespace, name string) {
	r.outlet.status.ForgetPodGroup(namespace, name)
	r.memory.forget(api.JobID(namespace + "/" + name))
}

// Remembered returns the number of records about gangs, their pods, and members that wait: 0 for a cluster without gangs.
func (r *Reporter) Remembered() int { return r.memory.size() + r.delays.size() }

func logger() klog.Logger { return klog.Background().WithName("report") }
