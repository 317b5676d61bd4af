// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// unbounded is the declared size of lists and maps. CEL uses the size only in cost estimates, and the plugin makes no
// estimates.
const unbounded = -1

// declarer derives CEL type declarations from the Go types of an API. The declarations follow the JSON encoding of the
// Go types. Each Go struct becomes one CEL type.
type declarer struct {
	structs map[reflect.Type]*apiservercel.DeclType
}

func newDeclarer() *declarer {
	return &declarer{structs: map[reflect.Type]*apiservercel.DeclType{}}
}

func typeOf[T any](d *declarer) *apiservercel.DeclType { return d.declare(reflect.TypeFor[T]()) }

func (d *declarer) declare(t reflect.Type) *apiservercel.DeclType {
	if custom := encodesItself(t); custom != nil {
		return custom
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.declare(t.Elem())
	case reflect.Bool:
		return apiservercel.BoolType
	case reflect.String:
		return apiservercel.StringType
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return apiservercel.IntType
	case reflect.Float32, reflect.Float64:
		return apiservercel.DoubleType
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return apiservercel.StringType // base64
		}
		return apiservercel.NewListType(d.declare(t.Elem()), unbounded)
	case reflect.Map:
		return apiservercel.NewMapType(apiservercel.StringType, d.declare(t.Elem()), unbounded)
	case reflect.Struct:
		return d.declareStruct(t)
	}
	return apiservercel.DynType
}

// declareStruct declares the CEL type of a struct. If a struct type contains itself, the inner occurrence is declared
// as dyn.
func (d *declarer) declareStruct(t reflect.Type) *apiservercel.DeclType {
	if known, ok := d.structs[t]; ok {
		return known
	}
	d.structs[t] = apiservercel.DynType
	fields := map[string]*apiservercel.DeclField{}
	d.addFields(t, fields)
	d.structs[t] = apiservercel.NewObjectType(typeName(t), fields)
	return d.structs[t]
}

// addFields adds the fields of a struct under their JSON names. It includes the fields of inlined structs.
func (d *declarer) addFields(t reflect.Type, fields map[string]*apiservercel.DeclField) {
	for field := range structFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			inlined := field.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			d.addFields(inlined, fields)
		case field.IsExported():
			if name == "" {
				name = field.Name
			}
			fields[name] = apiservercel.NewDeclField(name, d.declare(field.Type), false, nil, nil)
		}
	}
}

func structFields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range t.Fields() {
			if !yield(field) {
				return
			}
		}
	}
}

// encodesItself returns the CEL type of a Go type that has its own JSON encoding; nil if the Go type has none.
func encodesItself(t reflect.Type) *apiservercel.DeclType {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](),
		reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.Quantity]():
		return apiservercel.StringType
	}
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return apiservercel.DynType
	}
	return nil
}

// typeName returns the CEL name of a Go type, such as core.v1.PodSpec. The name is unique among the API groups in use.
func typeName(t reflect.Type) string {
	group, version := path.Split(t.PkgPath())
	return strings.Join([]string{path.Base(group), version, t.Name()}, ".")
}
