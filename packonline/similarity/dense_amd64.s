//go:build !purego

#include "textflag.h"

// func dotKernel(a, b *int8, n int) int32
// The sum of the products of n pairs of numbers, a multiple of 32 and not 0.
TEXT ·dotKernel(SB), NOSPLIT, $0-28
	MOVQ  a+0(FP), SI
	MOVQ  b+8(FP), DI
	MOVQ  n+16(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1

pairs:
	VPMOVSXBW (SI), Y2
	VPMOVSXBW (DI), Y3
	VPMADDWD  Y2, Y3, Y2
	VPADDD    Y2, Y0, Y0
	VPMOVSXBW 16(SI), Y4
	VPMOVSXBW 16(DI), Y5
	VPMADDWD  Y4, Y5, Y4
	VPADDD    Y4, Y1, Y1
	ADDQ      $32, SI
	ADDQ      $32, DI
	SUBQ      $32, CX
	JNE       pairs

	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xee, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x55, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, AX
	MOVL         AX, ret+24(FP)
	VZEROUPPER
	RET

// func differencesKernel(out, seats *int32, n int, signs, asked *uint64, words int)
// For each of n seats the number of bits in which its words differ from those asked. Words are an even number, neither
// is 0.
TEXT ·differencesKernel(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ seats+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ signs+24(FP), R8
	MOVQ asked+32(FP), R9
	MOVQ words+40(FP), R10

seat:
	MOVLQSX (SI), BX
	IMULQ   R10, BX
	LEAQ    (R8)(BX*8), BX
	XORL    DX, DX
	XORL    R11, R11
	XORL    R12, R12

word:
	MOVQ    (R9)(R11*8), AX
	MOVQ    8(R9)(R11*8), R13
	XORQ    (BX)(R11*8), AX
	XORQ    8(BX)(R11*8), R13
	POPCNTQ AX, AX
	POPCNTQ R13, R13
	ADDQ    AX, DX
	ADDQ    R13, R12
	ADDQ    $2, R11
	CMPQ    R11, R10
	JLT     word

	ADDQ R12, DX
	MOVL DX, (DI)
	ADDQ $4, DI
	ADDQ $4, SI
	DECQ CX
	JNE  seat
	RET
