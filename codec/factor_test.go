package codec

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDecodeFactor holds DefaultEstimate against kmsg: an element of any array of
// any request takes at most decodeFactor times its smallest form on the wire.
func TestDecodeFactor(t *testing.T) {
	t.Parallel()
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		message := kmsg.RequestForKey(key)
		if message == nil {
			continue
		}
		for version := int16(0); version <= message.MaxVersion(); version++ {
			fresh := func() kmsg.Request {
				m := kmsg.RequestForKey(key)
				m.SetVersion(version)
				return m
			}
			probeArrays(t, fresh, func(root reflect.Value) reflect.Value { return root }, reflect.TypeOf(message).Elem(), kmsg.NameForKey(key), version)
		}
	}
}

// probeArrays measures every array of structs below typ. locate finds the value
// of that type in a message, growing the arrays on the way to one element.
func probeArrays(t *testing.T, fresh func() kmsg.Request, locate func(reflect.Value) reflect.Value, typ reflect.Type, path string, version int16) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Type.Kind() != reflect.Slice || field.Type.Elem().Kind() == reflect.Uint8 {
			continue
		}
		encoded := func(elements int) int {
			m := fresh()
			array := locate(reflect.ValueOf(m).Elem()).Field(i)
			array.Set(reflect.MakeSlice(field.Type, elements, elements))
			return len(m.AppendTo(nil))
		}
		wire := encoded(102) - encoded(101)
		if wire == 0 {
			continue // not in this version
		}
		memory := int(field.Type.Elem().Size())
		if field.Type.Elem().Kind() == reflect.Struct {
			// Pointers to strings are allocated one by one.
			for j := range field.Type.Elem().NumField() {
				if field.Type.Elem().Field(j).Type.Kind() == reflect.Pointer {
					memory += 16
				}
			}
		}
		if memory > decodeFactor*wire {
			t.Errorf("%s.%s v%d: %d bytes in memory for %d on the wire is more than %d times", path, field.Name, version, memory, wire, decodeFactor)
		}
		if field.Type.Elem().Kind() == reflect.Struct {
			probeArrays(t, fresh, func(root reflect.Value) reflect.Value {
				array := locate(root).Field(i)
				if array.Len() == 0 {
					array.Set(reflect.MakeSlice(field.Type, 1, 1))
				}
				return array.Index(0)
			}, field.Type.Elem(), path+"."+field.Name, version)
		}
	}
}
