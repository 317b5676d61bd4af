// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/controllers/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// Name is the controller's name in the flag --controllers.
const Name = "gang-controller"

const (
	workers = 4
	// gather is the delay between a change of a gang and the sync of the gang, so that one sync handles several
	// changes.
	gather = 20 * time.Millisecond
	// A failed sync is retried after firstRetry. The delay doubles with each failure, up to lastRetry.
	firstRetry, lastRetry = 100 * time.Millisecond, time.Minute
	// awayRetry is the delay before the retry of a sync that could not reach the API server.
	awayRetry = time.Second
	// writeTimeout bounds each call to the API server.
	writeTimeout = 30 * time.Second
)

// controller is the gang controller.
type controller struct {
	kube     kubernetes.Interface
	volcano  vcclient.Interface
	recorder record.EventRecorder
	// sources are the API groups in which users write PodGroups. If several of these API groups have a PodGroup with
	// the same name, the first API group in sources is used.
	sources    []*source
	schedulers []string

	factory        informers.SharedInformerFactory
	volcanoFactory vcinformers.SharedInformerFactory
	pods           cache.SharedIndexInformer
	podGroups      cache.SharedIndexInformer
	groups         vclisters.PodGroupLister
	namespaces     corelisters.NamespaceLister
	queue          workqueue.TypedRateLimitingInterface[gangs.Name]
	// synced are functions that report whether the handlers of the shared informers have received the initial lists.
	synced []cache.InformerSynced
	// owned tracks the goroutines that Run has started and waits for before it returns.
	owned sync.WaitGroup
}

// Register registers the gang controller with upstream's controller manager.
func Register() error {
	if err := framework.RegisterController(&controller{}); err != nil {
		return fmt.Errorf("registering %s: %w", Name, err)
	}
	return nil
}

// Name implements framework.Controller.
func (c *controller) Name() string { return Name }

// Initialize implements framework.Controller.
func (c *controller) Initialize(opt *framework.ControllerOption) error {
	ours, err := versioned.NewForConfig(opt.Config)
	if err != nil {
		return fmt.Errorf("creating the client for PodGroups of %s: %w", v1alpha1.GroupName, err)
	}
	plugins, err := newPluginsClient(opt.Config, ours)
	if err != nil {
		return err
	}
	return c.initialize(opt,
		&source{version: v1alpha1.SchemeGroupVersion, client: ours},
		&source{version: v1alpha1.PluginsGroupVersion, client: plugins, hasStatus: true},
	)
}

func (c *controller) initialize(opt *framework.ControllerOption, sources ...*source) error {
	c.kube, c.volcano, c.sources, c.schedulers = opt.KubeClient, opt.VolcanoClient, sources, opt.SchedulerNames
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[gangs.Name](firstRetry, lastRetry))
	c.factory, c.volcanoFactory = opt.SharedInformerFactory, opt.VCSharedInformerFactory
	c.pods = c.factory.Core().V1().Pods().Informer()
	c.namespaces = c.factory.Core().V1().Namespaces().Lister()
	c.groups = c.volcanoFactory.Scheduling().V1beta1().PodGroups().Lister()
	c.podGroups = c.volcanoFactory.Scheduling().V1beta1().PodGroups().Informer()
	if err := c.pods.AddIndexers(indexers(c.ours)); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		c.pods: c.podHandler(), c.podGroups: c.volcanoHandler(),
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("adding event handlers: %w", err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	c.synced = append(c.synced, c.factory.Core().V1().Namespaces().Informer().HasSynced)
	return nil
}

// ours reports whether the pod belongs to a scheduler that this controller serves.
func (c *controller) ours(pod *corev1.Pod) bool {
	return slices.Contains(c.schedulers, pod.Spec.SchedulerName)
}

// Run implements framework.Controller. It returns when all goroutines that Run started have ended.
func (c *controller) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
	defer cancel()
	if c.recorder == nil {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: c.kube.CoreV1().Events("")})
		c.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})
	}
	defer c.owned.Wait()
	defer c.queue.ShutDown()
	c.factory.Start(stop)
	c.volcanoFactory.Start(stop)
	for _, s := range c.sources {
		if err := s.start(ctx, c.sourceHandler(), c.owned.Go, c.enqueueParked); err != nil {
			return // the context has ended, which is the only possible error
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	defer c.observe()()
	for range workers {
		c.owned.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	klog.FromContext(ctx).Info("Started the gang controller")
	<-ctx.Done()
}

func (c *controller) next(ctx context.Context) bool {
	name, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(name)
	err := c.sync(ctx, name)
	if err == nil {
		c.queue.Forget(name)
		return true
	}
	if ctx.Err() == nil && !apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Reconciling a gang failed, retrying", "gang", name.String())
	}
	if _, unanswered := errors.AsType[*url.Error](err); unanswered {
		c.queue.Forget(name)
		c.queue.AddAfter(name, awayRetry)
		return true
	}
	c.queue.AddRateLimited(name)
	return true
}

func (c *controller) enqueue(namespace, name string) {
	c.queue.AddAfter(gangs.Name{Namespace: namespace, Name: name}, gather)
}
