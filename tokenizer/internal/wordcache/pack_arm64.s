//go:build !purego

#include "textflag.h"

// func packKernel(t *line, s *byte, i int, ends []int32, keys *lineKey, places *uint32)
// Computes the keys of words and the places of their lines, and prefetches these. 16 bytes must be readable from the
// start of each word on.
TEXT ·packKernel(SB), NOSPLIT, $0-64
	MOVD t+0(FP), R0
	MOVD s+8(FP), R1
	MOVD i+16(FP), R2           // start of the word
	MOVD ends_base+24(FP), R3
	MOVD ends_len+32(FP), R4
	MOVD keys+48(FP), R5
	MOVD places+56(FP), R6
	CBZ  R4, done
	MOVD $·lengthRows(SB), R7
	MOVD $0x9E3779B97F4A7C15, R8
	MOVD $0xD6E8FEB86659FD93, R9
	MOVD $16, R10

loop:
	MOVW.P  4(R3), R11          // end of the word
	ADD     R2, R1, R13
	SUB     R2, R11, R12
	CMP     R10, R12
	CSEL    GT, R10, R12, R12
	ADD     R12<<6, R7, R12     // row of its length
	FMOVQ   (R13), F0
	FLDPQ   (R12), (F1, F2)
	LDP     32(R12), (R14, R15)
	VTBL    V1.B16, [V0.B16], V0.B16
	VORR    V2.B16, V0.B16, V0.B16
	FMOVQ.P F0, 16(R5)
	VMOV    V0.D[0], R16
	VMOV    V0.D[1], R17
	MUL     R8, R16, R16
	MADD    R9, R16, R17, R16
	LSR     R15, R16, R16
	ADD     R16<<6, R14, R16
	ADD     R16, R0, R17
	PRFM    (R17), PLDL1KEEP
	MOVW.P  R16, 4(R6)
	MOVD    R11, R2
	SUBS    $1, R4, R4
	BNE     loop

done:
	RET
