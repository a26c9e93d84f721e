//go:build !purego

#include "textflag.h"

// func prefetch(base unsafe.Pointer, places *uint32, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ base+0(FP), DI
	MOVQ places+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	DECQ CX
	JLT  done
	MOVL (SI)(CX*4), AX
	PREFETCHT0 (DI)(AX*1)
	JMP  loop
done:
	RET
