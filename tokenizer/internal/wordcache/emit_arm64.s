//go:build !purego

#include "textflag.h"

// THREE writes the ids of one element of packedIDs, R6, to the given address.
#define THREE(at) \
	AND  $0xfffff, R6, R7 \
	UBFX $20, R6, $20, R8 \
	UBFX $40, R6, $20, R9 \
	STPW (R7, R8), (at) \
	MOVW R9, 8(at)

// func emitKernel(t *line, dst *int32, places []uint32) (words, n int)
TEXT ·emitKernel(SB), NOSPLIT, $0-56
	MOVD t+0(FP), R0
	MOVD dst+8(FP), R1
	MOVD places_base+16(FP), R2
	MOVD places_len+24(FP), R3
	MOVD R1, R4
	MOVD R3, R5
	CBZ  R3, done

loop:
	MOVWU.P 4(R2), R10
	ADD     R10, R0, R10
	MOVD    (R10), R6
	LSR     $60, R6, R11        // number of ids
	THREE(R1)
	CMP     $3, R11
	BHI     more
	ADD     R11<<2, R1, R1
	SUBS    $1, R3, R3
	BNE     loop

done:
	SUB  R3, R5, R5
	MOVD R5, words+40(FP)
	SUB  R4, R1, R1
	LSR  $2, R1, R1
	MOVD R1, n+48(FP)
	RET

more:
	CMP  $12, R11
	BHI  done                   // the ids are elsewhere
	MOVD R1, R12
	ADD  R11<<2, R1, R1

again:
	MOVD.W 8(R10), R6
	ADD    $12, R12
	THREE(R12)
	SUB    $3, R11
	CMP    $3, R11
	BHI    again
	SUBS   $1, R3, R3
	BNE    loop
	B      done
