//go:build !purego

#include "textflag.h"

// func packKernel(t *line, s *byte, i int, ends []int32, keys *lineKey, places *uint32)
// Keys of words, and places of their lines, which are asked for. 16 bytes from each word's start on must be there.
TEXT ·packKernel(SB), NOSPLIT, $0-64
	MOVQ t+0(FP), DI
	MOVQ s+8(FP), SI
	MOVQ i+16(FP), AX           // start of the word
	MOVQ ends_base+24(FP), BX
	MOVQ ends_len+32(FP), CX
	MOVQ keys+48(FP), R10
	MOVQ places+56(FP), R11
	TESTQ CX, CX
	JE   done
	LEAQ ·lengthRows(SB), R12
	MOVQ $0x9E3779B97F4A7C15, R8
	MOVQ $0xD6E8FEB86659FD93, R9
	MOVQ $16, R13
	LEAQ (BX)(CX*4), BX
	LEAQ (R11)(CX*4), R11
	NEGQ CX
loop:
	MOVLQSX (BX)(CX*4), DX      // end of the word
	MOVQ DX, R15
	SUBQ AX, R15
	CMPQ R15, R13
	CMOVQGT R13, R15
	SHLQ $6, R15
	ADDQ R12, R15               // the row of its length
	VMOVDQU (SI)(AX*1), X0
	VPSHUFB (R15), X0, X0
	VPOR 16(R15), X0, X0
	MOVQ DX, AX
	VMOVDQU X0, (R10)
	VMOVQ X0, DX
	IMULQ R8, DX
	VPEXTRQ $1, X0, R14
	IMULQ R9, R14
	ADDQ R14, DX
	MOVQ 40(R15), R14
	SHRXQ R14, DX, DX
	SHLQ $6, DX
	ADDQ 32(R15), DX
	PREFETCHT0 (DI)(DX*1)
	MOVL DX, (R11)(CX*4)
	ADDQ $16, R10
	INCQ CX
	JNE  loop
done:
	RET
