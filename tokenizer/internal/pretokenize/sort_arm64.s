//go:build !purego

#include "textflag.h"

// func sortKernel(kind *letterKind, p *block, first uint64, by *letterMasks) (left uint64)
TEXT ·sortKernel(SB), NOSPLIT, $0-40
	MOVD kind+0(FP), R0
	MOVD p+8(FP), R1
	MOVD first+16(FP), R2
	MOVD by+24(FP), R3
	MOVD $·maskRows(SB), R4
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	CBZ  R2, done

loop:
	RBIT  R2, R5
	CLZ   R5, R5
	ADD   R1, R5, R5
	MOVBU (R5), R6
	MOVBU 1(R5), R7
	MOVBU 2(R5), R8
	BFI   $6, R7, $6, R8        // the lower six bits of three bytes
	BFI   $12, R6, $6, R8
	MOVBU (R0)(R8), R8
	CMP   $16, R8               // unclear
	BEQ   done
	ADD   R8<<5, R4, R8
	FLDPQ (R8), (F2, F3)
	SUB   $1, R2, R6
	BIC   R6, R2, R7            // the lowest bit
	AND   R6, R2, R2
	VDUP  R7, V4.D2
	VAND  V4.B16, V2.B16, V2.B16
	VAND  V4.B16, V3.B16, V3.B16
	VORR  V2.B16, V0.B16, V0.B16
	VORR  V3.B16, V1.B16, V1.B16
	CBNZ  R2, loop

done:
	FSTPQ (F0, F1), (R3)
	MOVD  R2, left+32(FP)
	RET
