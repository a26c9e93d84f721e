package bufpool

import "testing"

// A buffer has the length that was requested and at most an eighth more capacity. All buffers of a class have one size.
func TestPool_BufferSizesMatchClasses(t *testing.T) {
	const least, most = 256, 1 << 20
	p := New[uint16](least, most)
	sizes := map[int]int{} // by class
	for n := 1; n <= most+1; n += 1 + n/97 {
		b, from := p.Get(n)
		kept := n >= least && n <= most
		if len(b) != n || (from != nil) != kept || kept && cap(*from) > n+n/classesPerDoubling+1 {
			t.Fatalf("for %d elements there are %d, capacity %d, kept: %t", n, len(b), cap(b), from != nil)
		}
		if !kept {
			continue
		}
		size, i := sizeClass(n)
		if before, ok := sizes[i]; ok && before != size || size != cap(*from) {
			t.Fatalf("%d elements are of class %d with %d, the buffer has %d, others have %d", n, i, size, cap(*from), before)
		}
		sizes[i] = size
		if same, there := sizeClass(size); same != size || there != i {
			t.Fatalf("a buffer of %d from class %d goes to class %d", size, i, there)
		}
		p.Put(from)
	}
}

func TestPool_ReusesBuffers(t *testing.T) {
	p := New[byte](16, 1<<10)
	b, from := p.Get(1000)
	first := &b[0]
	b[0] = 1
	p.Put(from)
	used := false
	for range 100 { // the race detector drops some buffers
		again, from := p.Get(990)
		used = used || &again[0] == first
		p.Put(from)
	}
	switch {
	case !used && !OverwritesReturned:
		t.Error("the buffer is not used again")
	case OverwritesReturned && *first != 0xad:
		t.Error("the buffer is not overwritten")
	}
}

func TestOverwrite_FillsBuffer(t *testing.T) {
	for n := 1; n < 100; n++ {
		b := make([]uint16, n)
		overwrite(b)
		for i, x := range b {
			if x != 0xad {
				t.Fatalf("element %d of %d is %#x", i, n, x)
			}
		}
	}
}
