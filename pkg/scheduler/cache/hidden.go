// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"reflect"
	"unsafe"

	toolscache "k8s.io/client-go/tools/cache"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	topologyinformers "volcano.sh/apis/pkg/client/informers/externalversions/topology/v1alpha1"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// volcanoInformers is upstream's factory of informers for Volcano's kinds, which its cache keeps to itself. It is the only one:
// with one of our own every kind would be watched twice, and the two would come back at different times after an outage.
func volcanoInformers(upstream *vccache.SchedulerCache) (vcinformers.SharedInformerFactory, error) {
	field, err := hidden(reflect.ValueOf(upstream), "vcInformerFactory")
	if err != nil {
		return nil, err
	}
	factory, ok := reflect.TypeAssert[vcinformers.SharedInformerFactory](field)
	if !ok {
		return nil, fmt.Errorf("upstream's cache has no informers for Volcano's kinds: its vcInformerFactory is %v", field)
	}
	return factory, nil
}

// hyperNodeInformer is where upstream's cache has the HyperNodes from.
func hyperNodeInformer(upstream *vccache.SchedulerCache) (*topologyinformers.HyperNodeInformer, error) {
	field, err := hidden(reflect.ValueOf(upstream), "hyperNodeInformer")
	if err != nil {
		return nil, err
	}
	informer, ok := reflect.TypeAssert[*topologyinformers.HyperNodeInformer](field.Addr())
	if !ok || *informer == nil {
		return nil, fmt.Errorf("upstream's cache has no HyperNodes: its hyperNodeInformer is %v", field)
	}
	return informer, nil
}

// informersOf are all informers that upstream's cache has made. No factory tells what it has.
func informersOf(upstream *vccache.SchedulerCache, volcano vcinformers.SharedInformerFactory) ([]toolscache.SharedIndexInformer, error) {
	var all []toolscache.SharedIndexInformer
	for _, factory := range []any{upstream.SharedInformerFactory(), volcano} {
		informers, err := hidden(reflect.ValueOf(factory), "informers")
		if err != nil {
			return nil, err
		}
		for _, informer := range informers.Seq2() {
			known, ok := reflect.TypeAssert[toolscache.SharedIndexInformer](informer)
			if !ok {
				return nil, fmt.Errorf("%T has a %s where an informer is expected", factory, informer.Type())
			}
			all = append(all, known)
		}
	}
	return all, nil
}

// hidden is a field that its package keeps to itself, of the struct that a pointer is to.
func hidden(pointer reflect.Value, name string) (reflect.Value, error) {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, fmt.Errorf("no struct to take field %s of", name)
	}
	field := pointer.Elem().FieldByName(name)
	if !field.IsValid() {
		return reflect.Value{}, fmt.Errorf("%s has no field %s any more", pointer.Type(), name)
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem(), nil
}
