//go:build !purego

#include "textflag.h"

// ONE writes BX plus the place of the lowest bit of AX, and takes the bit away.
#define ONE(R, to) \
	TZCNTQ AX, R \
	BLSRQ  AX, AX \
	ADDL   BX, R \
	MOVL   R, to(DI)

// func listBitsKernel(ends *int32, b uint64, i int)
TEXT ·listBitsKernel(SB), NOSPLIT, $0-24
	MOVQ ends+0(FP), DI
	MOVQ b+8(FP), AX
	MOVQ i+16(FP), BX

eight:
	ONE(CX, 0)
	ONE(DX, 4)
	ONE(CX, 8)
	ONE(DX, 12)
	ONE(CX, 16)
	ONE(DX, 20)
	ONE(CX, 24)
	ONE(DX, 28)
	ADDQ  $32, DI
	TESTQ AX, AX
	JNE   eight
	RET
