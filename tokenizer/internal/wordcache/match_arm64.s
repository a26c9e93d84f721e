//go:build !purego

#include "textflag.h"

// One bit per key of a line.
DATA keyBits<>+0(SB)/8, $0x0000000200000001
DATA keyBits<>+8(SB)/8, $0x0000000800000004
GLOBL keyBits<>(SB), RODATA|NOPTR, $16

// func matchKernel(t *line, keys []lineKey, places *uint32, missing *uint16, n, first int) int
TEXT ·matchKernel(SB), NOSPLIT, $0-72
	MOVD t+0(FP), R0
	MOVD keys_base+8(FP), R1
	MOVD keys_len+16(FP), R2
	MOVD places+32(FP), R3
	MOVD missing+40(FP), R4
	MOVD n+48(FP), R5
	MOVD first+56(FP), R6
	CBZ  R2, done
	MOVD $·placeInLine(SB), R7
	MOVD $keyBits<>(SB), R8
	FMOVQ (R8), F3

loop:
	MOVWU   (R3), R8
	BIC     $63, R8, R9         // offset of the line
	ADD     R9, R0, R10
	FMOVQ.P 16(R1), F0
	FLDPQ   32(R10), (F1, F2)
	VCMEQ   V0.D2, V1.D2, V1.D2
	VCMEQ   V0.D2, V2.D2, V2.D2
	VUZP1   V2.S4, V1.S4, V1.S4
	VAND    V3.B16, V1.B16, V1.B16
	VADDV   V1.S4, V1
	FMOVS   F1, R11             // equal keys, one bit each
	AND     $16, R8, R12
	ADD     R12, R11, R11
	MOVBU   (R7)(R11), R11
	MOVH    R6, (R4)(R5<<1)
	ADD     R11, R9, R9
	CMP     $0x80, R11
	CSEL    EQ, R8, R9, R9      // missing: its place remains
	MOVW.P  R9, 4(R3)
	ADD     R11>>7, R5, R5
	ADD     $1, R6, R6
	SUBS    $1, R2, R2
	BNE     loop

done:
	MOVD R5, ret+64(FP)
	RET
