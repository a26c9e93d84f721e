package format

import "fmt"

// boolFields are the boolean fields of components: those without which the reference refuses a file, and optional ones.
// None may be null.
var boolFields = map[string]struct{ required, optional []string }{
	"ByteLevel": {required: []string{"add_prefix_space", "trim_offsets"}, optional: []string{"use_regex"}},
	"Digits":    {required: []string{"individual_digits"}},
	"Split":     {required: []string{"invert"}},
}

// nonNullFields are the other fields that may be missing, but not null.
var nonNullFields = map[string]string{"Punctuation": "behavior", "Metaspace": "prepend_scheme"}

// CheckFields checks that the reference accepts the fields of a component and of nested ones. If the reference
// refuses a file, no reference ids exist for it.
func CheckFields(where string, component map[string]any) error {
	for _, sequence := range []string{"pretokenizers", "processors", "decoders"} {
		list, _ := component[sequence].([]any)
		for _, x := range list {
			if part, ok := x.(map[string]any); ok {
				if err := CheckFields(where, part); err != nil {
					return err
				}
			}
		}
	}
	kind, _ := component["type"].(string)
	for _, name := range boolFields[kind].required {
		if _, ok := component[name].(bool); !ok {
			return fmt.Errorf("%s %s: want %s, true or false: the reference refuses the file without it", where,
				Describe(component), name)
		}
	}
	for _, name := range boolFields[kind].optional {
		value, there := component[name]
		if _, ok := value.(bool); there && !ok {
			return fmt.Errorf("%s %s: want %s true or false, as the reference does, or no such field", where,
				Describe(component), name)
		}
	}
	if value, there := component[nonNullFields[kind]]; there && value == nil {
		return fmt.Errorf("%s %s: want a value for %s, as the reference does, or no such field", where, Describe(component),
			nonNullFields[kind])
	}
	return nil
}
