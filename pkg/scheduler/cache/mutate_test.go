// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"reflect"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/fields"
)

// mutation is one change that a plugin could make to its copy.
type mutation struct {
	path string
	do   func()
}

// shared are the types whose objects snapshots share with the cache. Upstream's snapshots share the same types.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[*v1.Pod]():        true,
	reflect.TypeFor[*v1.Node]():       true,
	reflect.TypeFor[*time.Duration](): true, // a job's waiting time
}

// changesOf returns the changes that other packages can make to the node or job, one for each exported field and each
// entry.
func changesOf(copied any) []mutation {
	var all []mutation
	visit(reflect.ValueOf(copied), "", map[uintptr]bool{}, &all)
	return all
}

func visit(v reflect.Value, path string, seen map[uintptr]bool, all *[]mutation) {
	add := func(what string, do func()) { *all = append(*all, mutation{path + what, do}) }
	if shared[v.Type()] {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		visit(v.Elem(), path, seen, all)
	case reflect.Struct:
		for field, value := range fields.Exported(v) {
			visit(value, path+"."+field.Name, seen, all)
		}
	case reflect.Map:
		if !v.IsNil() {
			visitMap(v, path, seen, all)
		} else if v.CanSet() {
			add(" = {}", func() { v.Set(reflect.MakeMap(v.Type())) })
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i), seen, all)
		}
	}
	if v.CanSet() {
		visitScalar(v, add)
	}
}

func visitScalar(v reflect.Value, add func(string, func())) {
	switch v.Kind() {
	case reflect.Bool:
		add(" = !", func() { v.SetBool(!v.Bool()) })
	case reflect.Int, reflect.Int32, reflect.Int64:
		add("++", func() { v.SetInt(v.Int() + 1) })
	case reflect.Float64:
		add("++", func() { v.SetFloat(v.Float() + 1) })
	case reflect.String:
		add("+=x", func() { v.SetString(v.String() + "x") })
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			if v.Kind() == reflect.Pointer && !shared[v.Type()] {
				add(" = new", func() { v.Set(reflect.New(v.Type().Elem())) })
			}
			return
		}
		add(" = nil", func() { v.SetZero() })
	}
}

func visitMap(v reflect.Value, path string, seen map[uintptr]bool, all *[]mutation) {
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, key := range keys {
		at := fmt.Sprintf("%s[%v]", path, key)
		*all = append(*all, mutation{"delete " + at, func() { v.SetMapIndex(key, reflect.Value{}) }})
		element := reflect.New(v.Type().Elem()).Elem() // Entries of a map cannot be set, so a changed entry is put in.
		element.Set(v.MapIndex(key))
		var inner []mutation
		visit(element, at, seen, &inner)
		for _, m := range inner {
			*all = append(*all, mutation{m.path, func() {
				m.do()
				v.SetMapIndex(key, element)
			}})
		}
	}
	if v.Type().Key().Kind() == reflect.String {
		another := reflect.New(v.Type().Key()).Elem()
		another.SetString("another")
		*all = append(*all, mutation{path + "[another]", func() { v.SetMapIndex(another, reflect.Zero(v.Type().Elem())) }})
	}
}
