//go:build !purego

#include "textflag.h"

DATA idBytes<>+0(SB)/8, $0x8004030280020100
DATA idBytes<>+8(SB)/8, $0x8080808080070605
GLOBL idBytes<>(SB), RODATA|NOPTR, $16
DATA idShift<>+0(SB)/8, $0x0000000400000000
DATA idShift<>+8(SB)/8, $0
GLOBL idShift<>(SB), RODATA|NOPTR, $16
DATA idOnly<>+0(SB)/8, $0x000fffff000fffff
DATA idOnly<>+8(SB)/8, $0x000fffff000fffff
GLOBL idOnly<>(SB), RODATA|NOPTR, $16

// func emitKernel(t *line, dst *int32, places []uint32) (words, n int)
TEXT ·emitKernel(SB), NOSPLIT, $0-56
	MOVQ t+0(FP), DI
	MOVQ dst+8(FP), SI
	MOVQ places_base+16(FP), BX
	MOVQ places_len+24(FP), CX
	MOVQ SI, R9
	MOVQ CX, R10
	TESTQ CX, CX
	JE   done
	VMOVDQU idBytes<>(SB), X1
	VMOVDQU idShift<>(SB), X2
	VMOVDQU idOnly<>(SB), X3
	LEAQ (BX)(CX*4), BX
	NEGQ CX
loop:
	MOVL (BX)(CX*4), AX
	MOVBLZX 7(DI)(AX*1), DX
	VMOVQ (DI)(AX*1), X0
	VPSHUFB X1, X0, X0
	VPSRLVD X2, X0, X0
	VPAND X3, X0, X0
	VMOVDQU X0, (SI)
	SHRL $4, DX
	CMPL DX, $3
	JHI  more
	LEAQ (SI)(DX*4), SI
	INCQ CX
	JNE  loop
done:
	ADDQ CX, R10
	MOVQ R10, words+40(FP)
	SUBQ R9, SI
	SHRQ $2, SI
	MOVQ SI, n+48(FP)
	RET
more:
	CMPL DX, $12
	JHI  done
	MOVQ SI, R8
	LEAQ (SI)(DX*4), SI
again:
	ADDQ $8, AX
	ADDQ $12, R8
	VMOVQ (DI)(AX*1), X0
	VPSHUFB X1, X0, X0
	VPSRLVD X2, X0, X0
	VPAND X3, X0, X0
	VMOVDQU X0, (R8)
	SUBL $3, DX
	CMPL DX, $3
	JHI  again
	INCQ CX
	JNE  loop
	JMP  done
