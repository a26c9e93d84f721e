//go:build !purego

#include "textflag.h"

// func dotKernel(a, b *int8, n int) int32
// The sum of the products of n pairs of numbers. n is a multiple of 32 and not 0.
TEXT ·dotKernel(SB), NOSPLIT, $0-28
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

pairs:
	FLDPQ.P 32(R0), (F4, F5)
	FLDPQ.P 32(R1), (F6, F7)
	SUBS    $32, R2, R2
	WORD    $0x0e26c090           // SMULL V16.8H, V4.8B, V6.8B
	WORD    $0x4e26c091           // SMULL2 V17.8H, V4.16B, V6.16B
	WORD    $0x0e27c0b2           // SMULL V18.8H, V5.8B, V7.8B
	WORD    $0x4e27c0b3           // SMULL2 V19.8H, V5.16B, V7.16B
	WORD    $0x4e606a00           // SADALP V0.4S, V16.8H
	WORD    $0x4e606a21           // SADALP V1.4S, V17.8H
	WORD    $0x4e606a42           // SADALP V2.4S, V18.8H
	WORD    $0x4e606a63           // SADALP V3.4S, V19.8H
	BNE     pairs

	VADD  V1.S4, V0.S4, V0.S4
	VADD  V3.S4, V2.S4, V2.S4
	VADD  V2.S4, V0.S4, V0.S4
	VADDV V0.S4, V0
	FMOVS F0, R3
	MOVW  R3, ret+24(FP)
	RET

// func differencesKernel(out, seats *int32, n int, signs, asked *uint64, words int)
// For each of n seats, the number of bits in which its words differ from asked. words is even, and neither is 0.
TEXT ·differencesKernel(SB), NOSPLIT, $0-48
	MOVD out+0(FP), R0
	MOVD seats+8(FP), R1
	MOVD n+16(FP), R2
	MOVD signs+24(FP), R3
	MOVD asked+32(FP), R4
	MOVD words+40(FP), R5

seat:
	MOVW.P 4(R1), R6
	MUL    R5, R6, R6
	ADD    R6<<3, R3, R6
	MOVD   R4, R7
	MOVD   R5, R8
	VEOR   V0.B16, V0.B16, V0.B16

word:
	FMOVQ.P 16(R6), F1
	FMOVQ.P 16(R7), F2
	SUBS    $2, R8, R8
	VEOR    V1.B16, V2.B16, V1.B16
	VCNT    V1.B16, V1.B16
	WORD    $0x6e206820           // UADALP V0.8H, V1.16B
	BNE     word

	VUADDLV V0.H8, V0
	FMOVS   F0, R8
	MOVW.P  R8, 4(R0)
	SUBS    $1, R2, R2
	BNE     seat
	RET
