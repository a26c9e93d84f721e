//go:build !purego

#include "textflag.h"

// func matchKernel(t *line, keys []lineKey, places *uint32, missing *uint16, n, first int) int
TEXT ·matchKernel(SB), NOSPLIT, $0-72
	MOVQ t+0(FP), DI
	MOVQ keys_base+8(FP), SI
	MOVQ keys_len+16(FP), CX
	MOVQ places+32(FP), R11
	MOVQ missing+40(FP), R10
	MOVQ n+48(FP), BX
	MOVQ first+56(FP), R12
	TESTQ CX, CX
	JE   done
	LEAQ ·placeInLine(SB), R13
	LEAQ (R11)(CX*4), R11
	NEGQ CX
loop:
	MOVL (R11)(CX*4), AX
	MOVL AX, R8
	ANDL $0xffffffc0, R8
	VBROADCASTI128 (SI), Y0
	VPCMPEQQ 32(DI)(R8*1), Y0, Y0
	VMOVMSKPD Y0, DX
	MOVL AX, R9
	ANDL $0x10, R9
	ADDL R9, DX
	MOVBLZX (R13)(DX*1), DX
	MOVW R12, (R10)(BX*2)
	ADDL DX, R8
	SHRL $7, DX
	CMOVLNE AX, R8              // missing: its place stays
	MOVL R8, (R11)(CX*4)
	ADDQ DX, BX
	INCL R12
	ADDQ $16, SI
	INCQ CX
	JNE  loop
	VZEROUPPER
done:
	MOVQ BX, ret+64(FP)
	RET
