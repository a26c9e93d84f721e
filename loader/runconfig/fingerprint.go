package runconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fingerprint identifies everything that determines the plan and the rows made from it. Two configurations with the
// same fingerprint give byte-identical runs over equal document streams.
func (c Config) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("loaderd plan configuration\n"), c.canonicalJSON()...))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// canonicalJSON omits the fields that the packing method does not read: changing them does not change the fingerprint.
func (c Config) canonicalJSON() []byte {
	c = c.Canonical()
	c.Packing = c.Packing.Canonical()
	c.Sources = maps.Clone(c.Sources)
	for name, s := range c.Sources {
		s.Start = ""
		if s.Packing != nil {
			packing := s.Packing.Canonical()
			s.Packing = &packing
		}
		c.Sources[name] = s
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("loader: marshal configuration: %v", err)) // only numbers, strings and lists of them
	}
	return b
}

// Differences lists the fields in which two configurations differ, as "path: a -> b".
func (c Config) Differences(other Config) []string {
	a, b := flattenFields(c), flattenFields(other)
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if v, w := cmp.Or(a[path], "unset"), cmp.Or(b[path], "unset"); v != w {
			out = append(out, fmt.Sprintf("%s: %s -> %s", path, v, w))
		}
	}
	return out
}

func flattenFields(c Config) map[string]string {
	var tree map[string]any
	if err := json.Unmarshal(c.canonicalJSON(), &tree); err != nil {
		panic(fmt.Sprintf("loader: unmarshal configuration: %v", err))
	}
	out := map[string]string{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if m, ok := v.(map[string]any); ok {
			for k, x := range m {
				walk(prefix+"."+k, x)
			}
			return
		}
		b, _ := json.Marshal(v)
		out[prefix[1:]] = string(b)
	}
	walk("", tree)
	return out
}
