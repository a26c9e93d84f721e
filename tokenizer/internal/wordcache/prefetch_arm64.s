//go:build !purego

#include "textflag.h"

// func prefetch(base unsafe.Pointer, places *uint32, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVD base+0(FP), R0
	MOVD places+8(FP), R1
	MOVD n+16(FP), R2

loop:
	SUBS    $1, R2, R2
	BLT     done
	MOVWU.P 4(R1), R3
	ADD     R3, R0, R3
	PRFM    (R3), PLDL1KEEP
	B       loop

done:
	RET
