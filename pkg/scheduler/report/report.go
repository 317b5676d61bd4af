// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

const (
	// statusRejected is the reason of the event which reports that the API server rejected a status.
	statusRejected = "StatusRejected"
	// hyperNodeInvalid is the reason of the event on a HyperNode that sessions leave out because it is invalid.
	hyperNodeInvalid = "HyperNodeInvalid"
)

// Config holds the dependencies of a Reporter.
type Config struct {
	Kube    kubernetes.Interface
	Volcano vcclient.Interface
	Books   *books.Books
	// Pods, PodGroups and Queues list the objects from the scheduler's watch.
	Pods      corelisters.PodLister
	PodGroups vclisters.PodGroupLister
	Queues    vclisters.QueueLister
	// Events receives the events. If it is an *events.Writer, the Reporter starts and stops it.
	Events record.EventRecorder
	// OwnPod returns a shallow copy of a pod from the watch. The caller may replace its fields and change its annotations;
	// everything else is shared and read-only.
	OwnPod func(*v1.Pod) *v1.Pod
	// StatusRejected is called when the API server permanently rejects a status of an object of this kind.
	StatusRejected func(kind string)
	// WakeSoon requests that a session starts within a moment, because the session will have something to report.
	WakeSoon func()
}

// Reporter reports the state of gangs to users. It records its reports about a gang until Forget is called for the
// gang.
type Reporter struct {
	outlet   outlet
	books    *books.Books
	history  *gangHistory
	delays   *delays
	unseen   *unseen
	writer   *events.Writer // nil if Config.Events is no *events.Writer
	wakeSoon func()
}

// New returns a reporter. Its writers do not run until Start is called.
func New(config Config) *Reporter {
	r := &Reporter{
		books: config.Books, history: newGangHistory(config.PodGroups), delays: newDelays(), unseen: newUnseen(), wakeSoon: config.WakeSoon,
	}
	r.writer, _ = config.Events.(*events.Writer)
	recorder := events.NewRecorder(config.Events)
	status := statuswriter.New(statuswriter.Dependencies{
		Kube: config.Kube, Volcano: config.Volcano, Pods: config.Pods, PodGroups: config.PodGroups, Queues: config.Queues,
		Reports:  func(gang api.JobID, pod types.UID) bool { return r.isPending(gang, pod) || r.delays.hasReported(pod) },
		OwnPod:   config.OwnPod,
		Outdated: config.WakeSoon,
		Rejected: func(kind string, object runtime.Object, message string) {
			config.StatusRejected(kind)
			recorder.Event(object, v1.EventTypeWarning, statusRejected, message)
		},
	})
	r.outlet = outlet{books: config.Books, status: status, recorder: recorder}
	return r
}

// isPending reports whether the pod is a task in the books that waits to be placed.
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

// Recorder returns the recorder of events. It drops an event that would only repeat the last event of an object.
func (r *Reporter) Recorder() *events.Recorder { return r.outlet.recorder }

// Status returns the writer of the statuses of pods, PodGroups and queues.
func (r *Reporter) Status() *statuswriter.Writer { return r.outlet.status }

// Start starts the writers of statuses and events. They write nothing once the context has ended, and end after Stop is
// called.
func (r *Reporter) Start(ctx context.Context) {
	r.outlet.status.Start(ctx)
	if r.writer != nil {
		r.writer.Start(ctx)
	}
}

// Stop writes the reports that are not written yet, until the context ends. Then it stops the writers of statuses and
// events.
func (r *Reporter) Stop(ctx context.Context) {
	r.outlet.status.Stop(ctx)
	if r.writer != nil {
		r.writer.Stop(ctx) // after the statuses, because a rejected status is reported in an event
	}
}

// Bound records an event that the pod is bound to the node.
func (r *Reporter) Bound(pod *v1.Pod, node string) {
	r.outlet.recorder.Eventf(pod, v1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
}

// ReportQuarantined reports on the PodGroup that the gang is quarantined: sessions leave it out from now on.
func (r *Reporter) ReportQuarantined(gang api.JobID, why quarantine.Verdict) {
	r.outlet.gangUnschedulable(gang, why.Reason, why.Message)
}

// Panicked reports the objects that were quarantined because scheduling cycles with them panic.
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

// InvalidHyperNode records an event on the HyperNode that says why sessions leave out the HyperNode.
func (r *Reporter) InvalidHyperNode(hyperNode *topologyv1alpha1.HyperNode, message string) {
	named := *hyperNode // objects from a watch lack a kind, and the recorder's scheme lacks HyperNodes
	named.SetGroupVersionKind(topologyv1alpha1.SchemeGroupVersion.WithKind("HyperNode"))
	r.outlet.recorder.Event(&named, v1.EventTypeWarning, hyperNodeInvalid, message)
}

// Observe returns an observer of bind transactions that calls next. It also reports members that wait long in a
// transaction.
func (r *Reporter) Observe(next binding.Observer) binding.Observer {
	return delayObserver{next, r}
}

// HasFailed reports whether the gang's last bind transaction failed, and the gang has not failed to be placed for
// another reason since.
func (r *Reporter) HasFailed(gang api.JobID) bool {
	_, failed := r.history.failure(gang)
	return failed
}

// FailedWithClaims returns the gangs whose last transaction failed because of members that have claims.
func (r *Reporter) FailedWithClaims() []api.JobID { return r.history.failedWithClaims() }

// ForgetFailure drops the failure of the gang's last transaction, which no longer counts as failed.
func (r *Reporter) ForgetFailure(gang api.JobID) { r.history.forgetFailure(gang) }

// Forget drops all records about a gang whose PodGroup was deleted.
func (r *Reporter) Forget(namespace, name string) {
	r.outlet.status.ForgetPodGroup(namespace, name)
	r.history.forget(api.JobID(namespace + "/" + name))
}

// Remembered returns the number of records about gangs, their pods, and members that wait. It is 0 in a cluster without
// gangs.
func (r *Reporter) Remembered() int { return r.history.size() + r.delays.size() }

func logger() klog.Logger { return klog.Background().WithName("report") }
