package publishcmd

import "fmt"

// onceValue is the value of a string flag that may be given once. A repeated flag would silently lose its first
// value.
type onceValue struct {
	value *string
	given bool
}

func (v *onceValue) String() string {
	if v.value == nil {
		return ""
	}
	return *v.value
}

func (v *onceValue) Type() string { return "string" }

func (v *onceValue) Set(text string) error {
	if v.given {
		return fmt.Errorf("the flag is set twice, first to %q", *v.value)
	}
	*v.value, v.given = text, true
	return nil
}
