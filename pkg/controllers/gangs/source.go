// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned/scheme"
	typed "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned/typed/coscheduling/v1alpha1"
	informers "github.com/volcano-prebind/volcano-prebind/pkg/client/informers/externalversions/coscheduling/v1alpha1"
)

// lookAgain is how often the controller checks whether the API server serves PodGroups of an API group. It is shorter
// than grace, the time after which members report that their PodGroup is missing. So a gang that is submitted together
// with the CRD gets no error.
const lookAgain = grace / 2

// source is an API group in which users write PodGroups. Its CRD may be missing, and may be installed later.
type source struct {
	version schema.GroupVersion
	client  versioned.Interface
	// hasStatus reports whether the PodGroups have the subresource status. PodGroups with this subresource have no
	// field for the number of scheduled pods.
	hasStatus bool
	// resync is the informer's resync period; 0 for none.
	resync time.Duration
	// store is the store of the informer of PodGroups; nil until the API server serves PodGroups of this API group.
	store atomic.Pointer[cache.Indexer]
}

// get returns the named PodGroup; nil if it does not exist or the API server does not serve this API group.
func (s *source) get(namespace, name string) *v1alpha1.PodGroup {
	store := s.store.Load()
	if store == nil {
		return nil
	}
	object, ok, _ := (*store).GetByKey(namespace + "/" + name)
	if !ok {
		return nil
	}
	return object.(*v1alpha1.PodGroup)
}

// kind returns the kind and group of the source's PodGroups, for messages.
func (s *source) kind() string { return "PodGroup." + s.version.Group }

// start watches the source's PodGroups and waits until they are listed. If the API server does not serve them, start
// returns. It then checks again in the background, and calls late when the PodGroups are served and listed. start
// retries if the check fails. It calls owned to start a goroutine that the caller waits for.
func (s *source) start(ctx context.Context, handler cache.ResourceEventHandler, owned func(func()), late func()) error {
	for {
		served, err := s.served()
		switch {
		case served:
			return s.watch(ctx, handler, owned)
		case err == nil:
			owned(func() { s.await(ctx, handler, owned, late) })
			return nil
		}
		klog.FromContext(ctx).Error(err, "Checking whether PodGroups are served failed, retrying", "group", s.version.Group)
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

func (s *source) await(ctx context.Context, handler cache.ResourceEventHandler, owned func(func()), late func()) {
	for pause.For(ctx, lookAgain) {
		if served, _ := s.served(); served {
			if err := s.watch(ctx, handler, owned); err != nil {
				klog.FromContext(ctx).Error(err, "Watching PodGroups failed", "group", s.version.Group)
			}
			late()
			return
		}
	}
}

func (s *source) served() (bool, error) {
	list, err := s.client.Discovery().ServerResourcesForGroupVersion(s.version.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, resource := range list.APIResources {
		if resource.Name == "podgroups" {
			return true, nil
		}
	}
	return false, nil
}

func (s *source) watch(ctx context.Context, handler cache.ResourceEventHandler, owned func(func())) error {
	informer := informers.NewPodGroupInformer(s.client, "", s.resync, cache.Indexers{})
	if err := outage.RelistSoon(informer); err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	store := informer.GetIndexer()
	s.store.Store(&store) // must be stored before the handler is called for the first object
	owned(func() { informer.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// pluginsClient is a client for the PodGroups of scheduler-plugins. It returns these PodGroups as the type of
// scheduling.sigs.k8s.io, which has the same fields.
type pluginsClient struct {
	versioned.Interface
	podGroups typed.CoschedulingV1alpha1Interface
}

func (c *pluginsClient) CoschedulingV1alpha1() typed.CoschedulingV1alpha1Interface {
	return c.podGroups
}

func newPluginsClient(config *rest.Config, ours versioned.Interface) (versioned.Interface, error) {
	with := rest.CopyConfig(config)
	with.GroupVersion = &v1alpha1.PluginsGroupVersion
	with.APIPath = "/apis"
	with.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	client, err := rest.RESTClientFor(with)
	if err != nil {
		return nil, fmt.Errorf("creating the client for PodGroups of %s: %w", v1alpha1.PluginsGroupName, err)
	}
	return &pluginsClient{Interface: ours, podGroups: typed.New(client)}, nil
}
