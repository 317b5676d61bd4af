// SPDX-License-Identifier: Apache-2.0

// Package fields changes the fields of an object one by one, for tests that check on which fields a result depends.
package fields

import (
	"iter"
	"reflect"
)

// Exported yields the exported fields of the struct v, and their values.
func Exported(v reflect.Value) iter.Seq2[reflect.StructField, reflect.Value] {
	return func(yield func(reflect.StructField, reflect.Value) bool) {
		for field, value := range v.Fields() {
			if field.IsExported() && !yield(field, value) {
				return
			}
		}
	}
}

// Walk defines how the fields of objects are filled and changed.
type Walk struct {
	// Whole has the types whose values are changed as a whole, not field by field, with some values of each type. Fill
	// sets a field of such a type to the first value, and Each changes it to each of the other values. Fields of a type
	// with an empty list of values are left unchanged.
	Whole map[reflect.Type][]Value
}

// Value is a named value of a type that is a key of Walk.Whole.
type Value struct {
	Name  string
	Value any
}

// Fill sets all settable fields of the struct that pointer points to. Pointers, slices and maps become non-nil.
func (w Walk) Fill(pointer any) { w.fill(reflect.ValueOf(pointer).Elem()) }

// Each makes one call of the function in the parameter with for each possible change of a field: to another value or to
// the zero value. Fill must have filled the struct that pointer points to. path names the field and begins with a dot.
// The function do makes the change, and undo reverts it.
func (w Walk) Each(pointer any, with func(path string, do, undo func())) {
	w.change(reflect.ValueOf(pointer).Elem(), "", with)
}

func (w Walk) fill(v reflect.Value) {
	values, whole := w.Whole[v.Type()]
	switch {
	case !v.CanSet() || whole && len(values) == 0:
	case whole:
		v.Set(reflect.ValueOf(values[0].Value))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		w.fill(v.Elem())
	case v.Kind() == reflect.Struct:
		for _, field := range Exported(v) {
			w.fill(field)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		w.fill(v.Index(0))
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("x")
		w.fill(element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	}
}

func (w Walk) change(v reflect.Value, path string, with func(path string, do, undo func())) {
	values, whole := w.Whole[v.Type()]
	if !v.CanSet() || whole && len(values) == 0 {
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	set := func(what string, value func()) { with(path+what, value, func() { v.Set(old) }) }
	switch {
	case whole:
		for _, value := range values[1:] {
			set(value.Name, func() { v.Set(reflect.ValueOf(value.Value)) })
		}
	case v.Kind() == reflect.Pointer:
		set(" none", v.SetZero)
		w.change(v.Elem(), path, with)
	case v.Kind() == reflect.Struct:
		for field, value := range Exported(v) {
			w.change(value, path+"."+field.Name, with)
		}
	case v.Kind() == reflect.Slice:
		set(" none", v.SetZero)
		w.change(v.Index(0), path+"[]", with)
	case v.Kind() == reflect.Map && v.Len() > 0:
		set(" none", v.SetZero)
		w.changeEntry(v, path, with)
	case v.Kind() == reflect.String:
		set("", func() { v.SetString("y") })
	case v.Kind() == reflect.Bool:
		set("", func() { v.SetBool(!v.Bool()) })
	case v.CanInt():
		set("", func() { v.SetInt(2) })
	case v.CanUint():
		set("", func() { v.SetUint(2) })
	}
}

// changeEntry changes the only entry of the map v, which Fill has added. It replaces the entry for each change, because
// map values cannot be changed in place.
func (w Walk) changeEntry(v reflect.Value, path string, with func(path string, do, undo func())) {
	key := v.MapKeys()[0]
	element := reflect.New(v.Type().Elem()).Elem()
	element.Set(v.MapIndex(key))
	w.change(element, path, func(path string, do, undo func()) {
		with(path, func() { do(); v.SetMapIndex(key, element) }, func() { undo(); v.SetMapIndex(key, element) })
	})
}
