//go:build !purego

#include "textflag.h"

// ONE sets R to R2 plus the position of the lowest bit of R1, and clears the bit.
#define ONE(R) \
	RBIT R1, R \
	SUB  $1, R1, R5 \
	CLZ  R, R \
	AND  R5, R1, R1 \
	ADD  R2, R, R

// TWO writes two positions.
#define TWO(to) \
	ONE(R3) \
	ONE(R4) \
	STPW (R3, R4), to(R0)

// func listBitsKernel(ends *int32, b uint64, i int)
TEXT ·listBitsKernel(SB), NOSPLIT, $0-24
	MOVD ends+0(FP), R0
	MOVD b+8(FP), R1
	MOVD i+16(FP), R2

eight:
	TWO(0)
	TWO(8)
	TWO(16)
	TWO(24)
	ADD  $32, R0
	CBNZ R1, eight
	RET
