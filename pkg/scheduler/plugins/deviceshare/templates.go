// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// templatesKey is the key of the ConfigMap whose value has the shared-resource templates.
const templatesKey = "data.yaml"

// templates holds the current shared-resource templates of a ConfigMap. If the ConfigMap changes and cannot be parsed,
// the previous templates remain in use.
type templates struct {
	current atomic.Pointer[versionOfTemplates]
	wake    func()
	// informer watches the ConfigMap.
	informer cache.SharedIndexInformer
}

// versionOfTemplates is one version of a ConfigMap's templates. Templates is nil if the ConfigMap does not exist.
// number counts the earlier versions.
type versionOfTemplates struct {
	*allocator.Templates
	number uint64
}

// watchTemplates returns the shared-resource templates in the ConfigMap. The caller must run the informer that it
// returns with them.
func watchTemplates(kube kubernetes.Interface, config templatesConfig, wake func()) (*templates, error) {
	informer := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(config.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, config.Name).String()
		})).Core().V1().ConfigMaps().Informer()
	t := &templates{wake: wake, informer: informer}
	t.current.Store(&versionOfTemplates{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: t.read, UpdateFunc: func(_, now any) { t.read(now) }, DeleteFunc: func(any) { t.set(nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s/%s: %w", config.Namespace, config.Name, err)
	}
	return t, nil
}

func (t *templates) read(object any) {
	config, ok := object.(*v1.ConfigMap)
	if !ok {
		return
	}
	read, err := allocator.ParseTemplates(config.Data[templatesKey])
	if err != nil {
		klog.ErrorS(err, "Reading the templates of shared devices failed, keeping the previous ones", "configMap", klog.KObj(config), "key", templatesKey)
		return
	}
	t.set(read)
}

func (t *templates) set(read *allocator.Templates) {
	t.current.Store(&versionOfTemplates{read, t.current.Load().number + 1})
	t.wake()
}
