//go:build !purego

#include "textflag.h"

// SIXTEEN is a constant of 16 bytes.
#define SIXTEEN(at, low, high) \
	DATA utf8Tables<>+(at)(SB)/8, low \
	DATA utf8Tables<>+(at+8)(SB)/8, high

// The possible errors, one bit each, by the upper and the lower half of a byte and the upper half of the next byte.
SIXTEEN(0, $0x0202020202020202, $0x4915012180808080)
SIXTEEN(16, $0xcbcbcb8b8383a3e7, $0xcbcbdbcbcbcbcbcb)
SIXTEEN(32, $0x0101010101010101, $0x01010101babaaee6)

// The maximum of the last bytes where all characters are complete.
SIXTEEN(48, $0xffffffffffffffff, $0xbfdfefffffffffff)
GLOBL utf8Tables<>(SB), RODATA|NOPTR, $64

// UQSUB subtracts M from N, at least to 0.
#define UQSUB(M, N, D) WORD $(0x6e202c00 | (M)<<16 | (N)<<5 | (D)) // UQSUB VD.16B, VN.16B, VM.16B

// CHECK adds the errors of 16 bytes X after the bytes P to V1. V4, V5 and V6 are the bytes one, two and three before X.
#define CHECK(P, X) \
	VEXT  $15, X.B16, P.B16, V4.B16 \
	VEXT  $14, X.B16, P.B16, V5.B16 \
	VEXT  $13, X.B16, P.B16, V6.B16 \
	VUSHR $4, V4.B16, V7.B16 \
	VAND  V19.B16, V4.B16, V4.B16 \
	VTBL  V7.B16, [V16.B16], V7.B16 \
	VTBL  V4.B16, [V17.B16], V4.B16 \
	VAND  V4.B16, V7.B16, V7.B16 \
	VUSHR $4, X.B16, V4.B16 \
	VTBL  V4.B16, [V18.B16], V4.B16 \
	VAND  V4.B16, V7.B16, V7.B16 \
	UQSUB(21, 5, 5) \
	UQSUB(22, 6, 6) \
	VORR  V5.B16, V6.B16, V6.B16 \
	VAND  V23.B16, V6.B16, V6.B16 \
	VEOR  V6.B16, V7.B16, V7.B16 \
	VORR  V7.B16, V1.B16, V1.B16

// func validKernel(s *byte, n int) bool
// Reports whether the first n bytes, a multiple of 32, are UTF-8. The last character may be incomplete (Keiser, Lemire,
// Validating UTF-8 in less than one instruction per byte, 2020).
TEXT ·validKernel(SB), NOSPLIT, $0-17
	MOVD  s+0(FP), R0
	MOVD  n+8(FP), R1
	ADD   R0, R1, R1
	MOVD  $utf8Tables<>(SB), R2
	VLD1  (R2), [V16.B16, V17.B16, V18.B16, V19.B16]
	VMOV  V19.B16, V20.B16        // the maximum of the last bytes
	VMOVI $0x0f, V19.B16
	VMOVI $0x60, V21.B16          // the first of three or more bytes has this beyond 0x80
	VMOVI $0x70, V22.B16          // the first of four bytes
	VMOVI $0x80, V23.B16
	VEOR  V0.B16, V0.B16, V0.B16  // previous bytes
	VEOR  V1.B16, V1.B16, V1.B16  // errors

loop:
	CMP  R1, R0
	BHS  done
	LDP  (R0), (R2, R3)
	LDP  16(R0), (R4, R5)
	ORR  R2, R3, R3
	ORR  R4, R5, R5
	ORR  R3, R5, R5
	TST  $0x8080808080808080, R5
	BNE  wide
	UQSUB(20, 0, 3)               // a character that ASCII interrupts
	VORR V3.B16, V1.B16, V1.B16
	VEOR V0.B16, V0.B16, V0.B16
	ADD  $32, R0
	B    loop

wide:
	FLDPQ (R0), (F2, F3)
	CHECK(V0, V2)
	CHECK(V2, V3)
	VMOV  V3.B16, V0.B16
	ADD   $32, R0
	B     loop

done:
	VMOV V1.D[0], R2
	VMOV V1.D[1], R3
	ORR  R2, R3, R3
	CMP  $0, R3
	CSET EQ, R3
	MOVB R3, ret+16(FP)
	RET
