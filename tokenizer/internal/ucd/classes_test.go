package ucd

import "testing"

func TestClasses_PagesFitInAByte(t *testing.T) {
	if n := len(classes.class); n > 256 {
		t.Errorf("%d pages", n)
	}
}
