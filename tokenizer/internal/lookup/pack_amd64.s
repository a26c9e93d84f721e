//go:build !purego

#include "textflag.h"

// func packAVX2(t *line, s *byte, i int, ends []int32, keys *lineKey, places *uint32)
// Keys of words, and places of their lines, which are asked for. 32 bytes from each word's start on must be there.
TEXT ·packAVX2(SB), NOSPLIT, $0-64
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
	MOVQ $32, R13
	LEAQ (BX)(CX*4), BX
	LEAQ (R11)(CX*4), R11
	NEGQ CX
loop:
	MOVLQSX (BX)(CX*4), DX      // end of the word
	MOVQ DX, R15
	SUBQ AX, R15
	CMPQ R15, R13
	CMOVQGT R13, R15
	SHLQ $7, R15
	ADDQ R12, R15               // the row of its length
	VMOVDQU (R15), Y1
	VPERMD (SI)(AX*1), Y1, Y0
	VPAND 32(R15), Y0, Y0
	VPOR 64(R15), Y0, Y0
	MOVQ DX, AX
	VMOVDQU Y0, (R10)
	VEXTRACTI128 $1, Y0, X1
	VPADDQ X0, X0, X2
	VPADDQ X1, X2, X2
	VMOVQ X2, DX
	IMULQ R8, DX
	VPEXTRQ $1, X2, R14
	IMULQ R9, R14
	ADDQ R14, DX
	MOVQ 104(R15), R14
	SHRXQ R14, DX, DX
	SHLQ $6, DX
	ADDQ 96(R15), DX
	PREFETCHT0 (DI)(DX*1)
	MOVL DX, (R11)(CX*4)
	ADDQ $32, R10
	INCQ CX
	JNE  loop
	VZEROUPPER
done:
	RET
