package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// mapField returns the map field, with user-defined keys, that contains path. It also returns the key and the path
// below it. f is nil if no field does.
func (s *schema) mapField(path string) (f *field, name, rest string) {
	for _, f := range s.fields {
		if below, ok := strings.CutPrefix(path, f.path+"."); ok && f.kind.Kind() == reflect.Map {
			name, rest, _ = strings.Cut(below, ".")
			return f, name, rest
		}
	}
	return nil, "", ""
}

// setMapEntry stores a setting of one key. It replaces the map by a copy, because the map may be shared.
func (f *field) setMapEntry(c *Config, name, rest string, x setting) *Problem {
	key, kind := reflect.ValueOf(name), f.kind.Elem()
	fresh := reflect.New(kind).Elem()
	old := f.value(c)
	if v := old.MapIndex(key); v.IsValid() {
		fresh.Set(v)
	}
	wrong := &Problem{x.path, x.value, f.describeValues(), x.origin}
	switch isStruct := kind.Kind() == reflect.Struct; {
	case isStruct && rest != "":
		if p := setMember(fresh, rest, x); p != nil {
			return p
		}
	case isStruct:
		if m, isMap := x.value.(map[string]any); x.value != nil && !(isMap && len(m) == 0) {
			return wrong
		}
	case rest != "" || x.value == nil || f.set(fresh, x.value, x.text) != nil:
		return wrong
	}
	made := reflect.MakeMap(f.kind)
	for _, k := range old.MapKeys() {
		made.SetMapIndex(k, old.MapIndex(k))
	}
	made.SetMapIndex(key, fresh)
	old.Set(made)
	return nil
}

// setMember stores a setting below a key.
func setMember(to reflect.Value, path string, x setting) *Problem {
	members := newSchema(to.Type())
	m := members.byPath[path]
	if m == nil {
		return &Problem{x.path, x.value, "one of " + strings.Join(slices.Sorted(maps.Keys(members.byPath)), ", "), x.origin}
	}
	if x.value == nil || m.set(to.FieldByIndex(m.index), x.value, x.text) != nil {
		return &Problem{x.path, x.value, m.describeValues(), x.origin}
	}
	return nil
}
