// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	chartPath    = "config/charts/volcano-prebind"
	crdPath      = "config/crd"
	manifestPath = "config/install/volcano-prebind.yaml"
	// fieldManager is the field manager of applied objects.
	fieldManager = "volcano-prebind-controlplane"
	// servedTimeout limits how long InstallCRDs waits until the API server serves new CRDs.
	servedTimeout = 30 * time.Second
)

// The chart's namespace, service accounts and queue. These names are the chart's default values.
const (
	Namespace                       = "volcano-system"
	SchedulerServiceAccount         = "volcano-prebind-scheduler"
	ControllerManagerServiceAccount = "volcano-prebind-controllers"
	WebhookManagerServiceAccount    = "volcano-prebind-admission"
	DefaultQueue                    = "default"
)

// chartKinds are the kinds of objects of the chart that InstallChart applies, in the order in which it applies them.
var chartKinds = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "PriorityClass", "Queue",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// InstallCRDs applies the CRDs in config/crd and waits until the API server serves their resources.
func (cp *ControlPlane) InstallCRDs(ctx context.Context) error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, crdPath, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: run `make generate`", filepath.Join(root, crdPath))
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, parsed...)
	}
	if err := applyAll(ctx, cp.admin, objects, true); err != nil {
		return err
	}
	if err := waitServed(ctx, cp.admin, objects); err != nil {
		return err
	}
	cp.progress("%d CRDs are served", len(objects))
	return cp.refreshControllers(ctx)
}

// refreshControllers restarts kube-controller-manager. Without a restart, its garbage collector notices the kinds of
// new CRDs half a minute later. Until then it would not delete the dependents of a deleted Volcano Job.
func (cp *ControlPlane) refreshControllers(ctx context.Context) error {
	if cp.Process(ControllerManager) == nil {
		return nil
	}
	if err := cp.Kill(ControllerManager); err != nil {
		return err
	}
	return cp.Restart(ctx, ControllerManager)
}

// InstallChart applies the objects of the chart, rendered with its default values, except workloads and webhooks:
// namespace, service accounts, RBAC, priority class, queues and admission policies. InstallCRDs must be called first.
func (cp *ControlPlane) InstallChart(ctx context.Context) error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, manifestPath))
	if err != nil {
		return err
	}
	objects, err := parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", manifestPath, err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(chartKinds, o.GetKind())
	})
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return slices.Index(chartKinds, a.GetKind()) - slices.Index(chartKinds, b.GetKind())
	})
	if err := applyAll(ctx, cp.admin, objects, false); err != nil {
		return err
	}
	cp.progress("the chart's RBAC and queues are in place")
	return nil
}

// Apply applies the objects of a multi-document YAML text with server-side apply, in order.
func (cp *ControlPlane) Apply(ctx context.Context, manifest []byte) error {
	objects, err := parse(manifest)
	if err != nil {
		return err
	}
	return applyAll(ctx, cp.admin, objects, false)
}

// parse returns the objects in a multi-document YAML or JSON text.
func parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// applyAll applies the objects with server-side apply: all at once if parallel is true, else one after the other.
func applyAll(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured, parallel bool) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	errs := make([]error, len(objects))
	var wg sync.WaitGroup
	for i, object := range objects {
		if parallel {
			wg.Go(func() { errs[i] = applyOne(ctx, client, mapper, object) })
			continue
		}
		if err := applyOne(ctx, client, mapper, object); err != nil {
			return err
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func applyOne(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	fail := func(err error) error {
		return fmt.Errorf("applying %s %s: %w", gvk.Kind, strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"), err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fail(err)
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = client.Resource(mapping.Resource).Namespace(namespace)
	}
	if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fail(err)
	}
	return nil
}

// waitServed waits until the API server responds to a list of each CRD's resource. That may be later than the time when
// the CRD gets the condition Established.
func waitServed(ctx context.Context, config *rest.Config, crds []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	for _, crd := range crds {
		resources, err := servedResources(crd)
		if err != nil {
			return err
		}
		for _, resource := range resources {
			err := poll(ctx, func() error {
				_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
				return err
			})
			if err != nil {
				return fmt.Errorf("CRD %s is not served: %w", crd.GetName(), err)
			}
		}
	}
	return nil
}

// servedResources returns the resources of a CRD, one for each served version.
func servedResources(crd *unstructured.Unstructured) ([]schema.GroupVersionResource, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return nil, err
	}
	plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	var served []schema.GroupVersionResource
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if on, _ := version["served"].(bool); on {
			served = append(served, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		}
	}
	return served, nil
}

// poll calls f until it returns nil or the context ends. If the context ends, it returns the context's error and the last
// error of f.
func poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
