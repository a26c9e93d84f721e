//go:build !purego

#include "textflag.h"

// func sortKernel(kind *letterKind, p *block, first uint64, by *letterMasks) (left uint64)
TEXT ·sortKernel(SB), NOSPLIT, $0-40
	MOVQ kind+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ first+16(FP), AX
	MOVQ by+24(FP), R12
	LEAQ ·maskRows(SB), R11
	SUBQ $(0xC0<<12), DI      // the upper bits of a first byte count for nothing
	VPXOR Y0, Y0, Y0
	TESTQ AX, AX
	JEQ  done

loop:
	TZCNTQ AX, CX
	MOVBLZX (SI)(CX*1), R8
	MOVBLZX 1(SI)(CX*1), R9
	MOVBLZX 2(SI)(CX*1), R10
	SHLL $12, R8
	ANDL $0x3f, R9
	SHLL $6, R9
	ANDL $0x3f, R10
	ADDL R9, R8
	ADDL R10, R8
	MOVBLZX (DI)(R8*1), R8
	CMPL R8, $16              // unclear
	JEQ  done
	SHLL $5, R8
	BLSIQ AX, DX
	VMOVQ DX, X1
	VPBROADCASTQ X1, Y1
	VPAND (R11)(R8*1), Y1, Y1
	VPOR Y1, Y0, Y0
	BLSRQ AX, AX
	JNE  loop

done:
	VMOVDQU Y0, (R12)
	VZEROUPPER
	MOVQ AX, left+32(FP)
	RET
