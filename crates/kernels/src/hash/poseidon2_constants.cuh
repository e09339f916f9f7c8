#pragma once

#include "hash/poseidon2.cuh"

// The round constants of Plonky3's default instances (`default_koalabear_poseidon2_16` and its siblings), in
// stored form: Montgomery for the 31-bit fields, canonical for Goldilocks.

__constant__ const Poseidon2<KoalaBear, 16>::Constants KOALA_BEAR_POSEIDON2_WIDTH_16 = {
    {
        {
            0x603596a0, 0x704dbaed, 0x11eba4c8, 0x328990ce, 0x74b80058, 0x4e0d58e4, 0x0971c1f9, 0x621f1a4d,
            0x701a0ca5, 0x14ef48ea, 0x111c281d, 0x77a69c56, 0x0e350932, 0x32c8de8f, 0x4ea39f73, 0x4f341b79,
        },
        {
            0x3c0fafe4, 0x6b323414, 0x13c89bae, 0x3a120a16, 0x25457d52, 0x37939915, 0x557a7f0d, 0x22c96618,
            0x07f0a954, 0x156e728e, 0x43b7a4e9, 0x54f06e50, 0x2f944ec0, 0x0a951641, 0x1addc5a6, 0x4bab1d79,
        },
        {
            0x403caf44, 0x477ccd50, 0x1e37bb3b, 0x0bd676d4, 0x71fbde1c, 0x33087874, 0x76524d38, 0x7d57fbf5,
            0x06b57b81, 0x3159d77d, 0x6de4f266, 0x4e241f0c, 0x26a11cfc, 0x31eed79c, 0x72b9f6ec, 0x0cb3e128,
        },
        {
            0x5393c279, 0x22294b58, 0x7da925e9, 0x713e2b0e, 0x47ae3fef, 0x35789e42, 0x6132adac, 0x0277e003,
            0x0685a1a8, 0x2757938f, 0x7063aaec, 0x40a7b0b8, 0x5bacea93, 0x5e42d09a, 0x2749bdf0, 0x31070e61,
        },
    },
    {
        0x12e9fd42, 0x5585abae, 0x26da4e73, 0x34e947aa, 0x7c979577, 0x26e19c50, 0x5729637e, 0x07ff5f6c,
        0x7756e1ea, 0x54f61bbb, 0x48508ea7, 0x2179d330, 0x69beb841, 0x72a55a1e, 0x17a1845a, 0x1271f8df,
        0x18b18b82, 0x18bfdb51, 0x57ab0f72, 0x21b7d221,
    },
    {
        {
            0x341e84c3, 0x1c33ac98, 0x538e685c, 0x516e74f7, 0x7ab0b51c, 0x39229bb5, 0x66dee9eb, 0x24ef1cae,
            0x0c79ec27, 0x77172a64, 0x1b1bd3b6, 0x72b6d21d, 0x768ee253, 0x41f5bc7d, 0x24828d32, 0x1705e8ab,
        },
        {
            0x1356ca74, 0x34c47fba, 0x4f11495f, 0x55ea5d30, 0x1bcf7212, 0x0107c877, 0x447e912e, 0x1109a8b1,
            0x778fc2aa, 0x02924b17, 0x35d27d16, 0x533a99d2, 0x4de304a0, 0x76b1ce9f, 0x0e8b0627, 0x538ce0e6,
        },
        {
            0x7c4b28c7, 0x6e84f678, 0x27e38a26, 0x06cf004a, 0x56ffb0fb, 0x06d98a47, 0x65b6ffa2, 0x301f52e0,
            0x6183a432, 0x3bf7737e, 0x4f5abe10, 0x7de664f2, 0x51609db2, 0x50ca3777, 0x676e1cec, 0x7539d319,
        },
        {
            0x3e1378dd, 0x16b99456, 0x7d442611, 0x2de7a10d, 0x5fafd183, 0x488434d9, 0x595ba6af, 0x2d65a306,
            0x317179a1, 0x2fe597e3, 0x6d590839, 0x060d9f42, 0x6a7ac551, 0x548db06d, 0x0ad4b90d, 0x4b5f2ecb,
        },
    },
};

__constant__ const Poseidon2<KoalaBear, 24>::Constants KOALA_BEAR_POSEIDON2_WIDTH_24 = {
    {
        {
            0x02787d43, 0x013e5da3, 0x2b72330e, 0x436253ef, 0x568c532c, 0x2f993cca, 0x6a6f6a5f, 0x0d45ddf0,
            0x047feea7, 0x064eeede, 0x5597c3f8, 0x2447b107, 0x65360b6f, 0x3941417b, 0x38b5dc9d, 0x3df0553c,
            0x180fa06a, 0x7480a922, 0x1f44bc88, 0x7d1525e5, 0x4e8ae071, 0x7b0b4e82, 0x7a7b0468, 0x242b69b0,
        },
        {
            0x4fe20951, 0x43eaf057, 0x25b082f4, 0x3f9b005c, 0x2a0cd813, 0x3f9bb596, 0x5d166be5, 0x4bfc59bf,
            0x265123e7, 0x68c88c0e, 0x2544b683, 0x65d879d1, 0x06acf49b, 0x573c2f35, 0x711e197f, 0x619447a3,
            0x147d6dfe, 0x75443f97, 0x75a9513c, 0x071a157b, 0x455a6f21, 0x7718ce7e, 0x4ce5d1fa, 0x120e3147,
        },
        {
            0x7882cee2, 0x39964923, 0x366d6c8c, 0x0abb3825, 0x5afd2e38, 0x16b3372b, 0x5dddeb3d, 0x6d79f308,
            0x5b0582e8, 0x297db580, 0x30594c78, 0x374b8675, 0x06a58a6f, 0x0a43425d, 0x5d904d6c, 0x2ea931c1,
            0x4379e046, 0x54f5e79c, 0x50aa1039, 0x02479d1a, 0x24ec9e01, 0x2c20424f, 0x37c904ef, 0x7b7a1db4,
        },
        {
            0x0d6aeb5f, 0x437e3153, 0x0c7710c3, 0x7088cfbb, 0x502b3ec2, 0x036d7ee3, 0x4a13ec74, 0x3070b751,
            0x50f001d5, 0x77a50057, 0x22936a42, 0x30a42be1, 0x4a06a0cb, 0x4ab8e2ea, 0x5bd862bc, 0x101da862,
            0x53a7cca2, 0x59b44467, 0x3e755356, 0x0fea1519, 0x4afd8969, 0x4fc07a6f, 0x53d8f12a, 0x15f26917,
        },
    },
    {
        0x2985612f, 0x1210a0b1, 0x4ebd2c0c, 0x13317bc6, 0x5abeaab1, 0x3e1545b5, 0x2fd74c63, 0x0857a9c3,
        0x4ee1e14f, 0x4d1f2bae, 0x36291abf, 0x685467d3, 0x56676506, 0x2e603d1e, 0x6bc0c8c4, 0x2214876a,
        0x2b4293f9, 0x2f40dcee, 0x5c775a2c, 0x4ab1aadf, 0x4a5d849c, 0x35892882, 0x1e3caae5,
    },
    {
        {
            0x3bc13bc8, 0x07e0bb86, 0x7c320738, 0x35948d3e, 0x54378811, 0x5587ed73, 0x43c079c3, 0x5c1acfb0,
            0x4a29d5d5, 0x0419675a, 0x511e296e, 0x3122c488, 0x130acfb8, 0x212a80a7, 0x318ee8f3, 0x3d6e19b8,
            0x0e44c248, 0x3a2e0832, 0x3d302b05, 0x7c805253, 0x2238b489, 0x5c75afee, 0x6203aa2a, 0x76d75c70,
        },
        {
            0x086db09a, 0x39203ec2, 0x0299af8f, 0x6d44e859, 0x1e4b2a78, 0x19550ba5, 0x79f300f4, 0x6d4137eb,
            0x65a5d11c, 0x56f62029, 0x1b7e3527, 0x53eb8be5, 0x28a12a02, 0x1b1c6f57, 0x3393232b, 0x55ea8e8e,
            0x15e9282b, 0x4d8aa012, 0x1c466a80, 0x081ec752, 0x13b6b629, 0x1c19b29c, 0x3bb220a0, 0x62d2eed9,
        },
        {
            0x739e442d, 0x55dce3b7, 0x31e61b10, 0x1af5388f, 0x7c569247, 0x12b653ed, 0x5ebaa762, 0x13c77024,
            0x204e3089, 0x4729ff0f, 0x228546fe, 0x08fdc344, 0x052b4516, 0x13ab2f05, 0x2d38b9e8, 0x11754024,
            0x04464c07, 0x3f60985f, 0x5886af17, 0x687080d9, 0x000fa71f, 0x21bf66b5, 0x542affea, 0x3ab22066,
        },
        {
            0x50173e62, 0x6ba7d6a9, 0x787989d7, 0x3624b926, 0x1234b726, 0x06c12679, 0x5c8465a6, 0x520d4c3e,
            0x74b17490, 0x4212a8f5, 0x26c43e43, 0x3d5237d1, 0x3dcadd20, 0x79a80043, 0x155625dc, 0x18269f7e,
            0x668fe188, 0x16ab586a, 0x257360a9, 0x1eb1ce39, 0x13df6ca7, 0x6cc94dc0, 0x12a042b3, 0x0b25af23,
        },
    },
};

__constant__ const Poseidon2<BabyBear, 16>::Constants BABY_BEAR_POSEIDON2_WIDTH_16 = {
    {
        {
            0x5e4d6938, 0x71385def, 0x61ddbd3a, 0x1b941180, 0x4d20d77d, 0x52478027, 0x732e57c3, 0x10e63112,
            0x3c99be27, 0x0221857a, 0x4bbe9ab7, 0x32c46133, 0x2f62cc76, 0x37682266, 0x1f3714e3, 0x5f01dd7d,
        },
        {
            0x35678506, 0x67da0d24, 0x36b3008a, 0x5a6765cc, 0x45c068bd, 0x2ed4b9ec, 0x249392d3, 0x150a571c,
            0x287549ea, 0x3bedb1b8, 0x659e048e, 0x46023d70, 0x1e55a92d, 0x1f9c528f, 0x4f1ad620, 0x547fa880,
        },
        {
            0x44c19b36, 0x22c2f11a, 0x17b67671, 0x55dddeb4, 0x1b18a7ed, 0x0a66840e, 0x0a3cd409, 0x771e5548,
            0x53aaba92, 0x6bbfe070, 0x1ad7c512, 0x56f4fbf9, 0x2ee93eac, 0x3f67bc14, 0x766f3f66, 0x1cb5555c,
        },
        {
            0x496b4856, 0x4ee52289, 0x0e351627, 0x77f2fa2b, 0x3d176ccc, 0x42103ad7, 0x4c8a5ba9, 0x242cfe16,
            0x3ce22e52, 0x2ae0610a, 0x2751c80b, 0x2ddefdb7, 0x3003796e, 0x234c77eb, 0x687881f7, 0x278ad903,
        },
    },
    {
        0x0eee3c46, 0x1f803700, 0x57cbade6, 0x3a3d3472, 0x706866bd, 0x413da073, 0x08ca8f35, 0x279652bb,
        0x17c601da, 0x140a84a1, 0x6113337b, 0x34f6e216, 0x22f9b8b2,
    },
    {
        {
            0x3b98331a, 0x1225b500, 0x20f18724, 0x1add1ead, 0x27c8bae0, 0x67810938, 0x4f2405e1, 0x44bd103f,
            0x30ad7b47, 0x4025183a, 0x7222068f, 0x6376b2e5, 0x5165184a, 0x3a2811d0, 0x3d7d5b9c, 0x530c569d,
        },
        {
            0x5caada1c, 0x3d06627d, 0x5ffc6e6c, 0x14ba29f8, 0x71d1c1e9, 0x2c0fb8f7, 0x198b65e1, 0x25bcff06,
            0x07427c35, 0x059b1122, 0x519ea061, 0x4a81a536, 0x06cf9aa9, 0x1eb2ca04, 0x02ec7cac, 0x74f6c733,
        },
        {
            0x524ebfde, 0x6edd9d09, 0x03db6b21, 0x0094e6fc, 0x643ed13b, 0x2a5eb829, 0x3ccf7585, 0x544a7136,
            0x5b49128f, 0x0227bd55, 0x2a88bdad, 0x055c4d17, 0x6f822c4a, 0x179a43f2, 0x42ec1895, 0x68f3d82f,
        },
        {
            0x30dcf522, 0x0806ab72, 0x689d63db, 0x011943f8, 0x65709ccd, 0x6a3c56e1, 0x5871ed94, 0x395e47bd,
            0x6eb895c4, 0x0d422bd9, 0x03c4b679, 0x1eb56dde, 0x505e67b5, 0x3a05211e, 0x5ed5c104, 0x2a1275f1,
        },
    },
};

__constant__ const Poseidon2<BabyBear, 24>::Constants BABY_BEAR_POSEIDON2_WIDTH_24 = {
    {
        {
            0x1ea64c58, 0x57d1a303, 0x57f31a70, 0x10b3875a, 0x03f65a0d, 0x20fd6c7a, 0x0627e178, 0x60440b17,
            0x305467ca, 0x2689a1cf, 0x405cdf37, 0x627d0f25, 0x21ea8b19, 0x35bdeee2, 0x44d298ad, 0x475bbf71,
            0x44571b92, 0x71c01acd, 0x46d7e33d, 0x352f3b01, 0x6e3f4a43, 0x613f5ab8, 0x2b3e6344, 0x063abdd2,
        },
        {
            0x4f8516fb, 0x1d51becf, 0x033efae7, 0x166a5a28, 0x0c219ac0, 0x03391add, 0x62f7cf94, 0x1ee11324,
            0x75a2eddc, 0x10d4c634, 0x60a9d999, 0x6b207f87, 0x64f471ef, 0x75eff613, 0x34d798ee, 0x0a01158f,
            0x2db1abb4, 0x5746e342, 0x442bc869, 0x5da762e2, 0x41704acd, 0x084182d7, 0x5150f812, 0x72383d62,
        },
        {
            0x2e15c428, 0x6c8ce0f2, 0x180f5479, 0x5dee4552, 0x0466ad7c, 0x2c5618c0, 0x233efb8e, 0x5578c6c2,
            0x0fa56ddf, 0x19b89074, 0x2ae42724, 0x0b939bb6, 0x4b6c74ad, 0x7355f17f, 0x68c65d39, 0x3306cad1,
            0x5d5512b6, 0x31b5d340, 0x06cb4dee, 0x6e946509, 0x643908a2, 0x3513bf4b, 0x1f171ec5, 0x0a53f661,
        },
        {
            0x57a9bd63, 0x1e191133, 0x72a34428, 0x13f6e459, 0x54674330, 0x070b5432, 0x419c76c1, 0x0d770f73,
            0x65227c0a, 0x0e07ed8b, 0x770af03a, 0x2aaffbef, 0x1dc00a77, 0x6693570f, 0x1142820d, 0x667ce209,
            0x690a530e, 0x5a0d0c12, 0x597b8134, 0x74b5821e, 0x625c0d00, 0x152f8d49, 0x7568d5e5, 0x73bd894d,
        },
    },
    {
        0x30bcad52, 0x5a931fb6, 0x0a38b12e, 0x140e8795, 0x6a65c304, 0x725d7cbc, 0x5474c47a, 0x08034f38,
        0x6f7a4034, 0x5f791b37, 0x12a8eb2c, 0x48c33cb2, 0x6ebadae7, 0x0a45c11b, 0x5f87cfd1, 0x112b8b7b,
        0x12b450f5, 0x280ef6ad, 0x1f2d2997, 0x160b824a, 0x09c54da2,
    },
    {
        {
            0x594162d4, 0x4c0f9adb, 0x70e6b20b, 0x4f7d8b24, 0x45dafd14, 0x5075b598, 0x6e2ba772, 0x2c5ae6bf,
            0x743ac0f4, 0x30d25c00, 0x749677b9, 0x427b3fed, 0x42ef722f, 0x19d949dc, 0x3be348d9, 0x1d009b85,
            0x50a19ae8, 0x387a3d1a, 0x28cdd854, 0x212a10fe, 0x0a944079, 0x1cf8e8f5, 0x6c140176, 0x2ba2042a,
        },
        {
            0x263f30e8, 0x0516a4b4, 0x3e5d9b72, 0x6dabfa2f, 0x13743681, 0x5115d074, 0x3e1e7796, 0x31acf14a,
            0x07b976f1, 0x55f96814, 0x3a60baca, 0x65f518c8, 0x3e7d0f3e, 0x4e3293dc, 0x3029a21b, 0x100cf3ae,
            0x59a88c21, 0x11bd5fdf, 0x5dd9dabe, 0x5a29da15, 0x4380706f, 0x25d5bfc0, 0x2fe8a6ee, 0x1ce32b1a,
        },
        {
            0x28aabfe2, 0x3c7e625e, 0x57fd7816, 0x777741c3, 0x1f9352a9, 0x669a6422, 0x55edc39e, 0x6eccb7a4,
            0x0bd3b8dc, 0x55a5a92f, 0x486ed336, 0x37a21a86, 0x089196ae, 0x3db7c1c6, 0x1b779b08, 0x363cf9d8,
            0x0bfd37d7, 0x19a13e91, 0x25d79694, 0x3dcdb92b, 0x0f58a692, 0x1363acfd, 0x584adc0d, 0x079cb942,
        },
        {
            0x1687928a, 0x6ee06974, 0x685c7833, 0x12259252, 0x0910eadd, 0x2fc27ada, 0x70893495, 0x62f12ab0,
            0x2eeee5ed, 0x34ac353d, 0x2d87af23, 0x5e47a221, 0x732fcc8d, 0x42b405e6, 0x254cba0a, 0x3668765f,
            0x3ec91a02, 0x4a47cb02, 0x0110d363, 0x7356167f, 0x577d1b31, 0x135dc5f3, 0x0b6b3db5, 0x687e0d2d,
        },
    },
};

__constant__ const Poseidon2<Goldilocks, 8>::Constants GOLDILOCKS_POSEIDON2_WIDTH_8 = {
    {
        {
            0xdd5743e7f2a5a5d9ull, 0xcb3a864e58ada44bull, 0xffa2449ed32f8cdcull, 0x42025f65d6bd13eeull,
            0x7889175e25506323ull, 0x34b98bb03d24b737ull, 0xbdcc535ecc4faa2aull, 0x5b20ad869fc0d033ull,
        },
        {
            0xf1dda5b9259dfcb4ull, 0x27515210be112d59ull, 0x4227d1718c766c3full, 0x26d333161a5bd794ull,
            0x49b938957bf4b026ull, 0x4a56b5938b213669ull, 0x1120426b48c8353dull, 0x6b323c3f10a56cadull,
        },
        {
            0xce57d6245ddca6b2ull, 0xb1fc8d402bba1eb1ull, 0xb5c5096ca959bd04ull, 0x6db55cd306d31f7full,
            0xc49d293a81cb9641ull, 0x1ce55a4fe979719full, 0xa92e60a9d178a4d1ull, 0x002cc64973bcfd8cull,
        },
        {
            0xcea721cce82fb11bull, 0xe5b55eb8098ece81ull, 0x4e30525c6f1ddd66ull, 0x43c6702827070987ull,
            0xaca68430a7b5762aull, 0x3674238634df9c93ull, 0x88cee1c825e33433ull, 0xde99ae8d74b57176ull,
        },
    },
    {
        0x488897d85ff51f56ull, 0x1140737ccb162218ull, 0xa7eeb9215866ed35ull, 0x9bd2976fee49fcc9ull,
        0xc0c8f0de580a3fccull, 0x4fb2dae6ee8fc793ull, 0x343a89f35f37395bull, 0x223b525a77ca72c8ull,
        0x56ccb62574aaa918ull, 0xc4d507d8027af9edull, 0xa080673cf0b7e95cull, 0xf0184884eb70dcf8ull,
        0x044f10b0cb3d5c69ull, 0xe9e3f7993938f186ull, 0x1b761c80e772f459ull, 0x606cec607a1b5facull,
        0x14a0c2e1d45f03cdull, 0x4eace8855398574full, 0xf905ca7103eff3e6ull, 0xf8c8f8d20862c059ull,
        0xb524fe8bdd678e5aull, 0xfbb7865901a1ec41ull,
    },
    {
        {
            0x014ef1197d341346ull, 0x9725e20825d07394ull, 0xfdb25aef2c5bae3bull, 0xbe5402dc598c971eull,
            0x93a5711f04cdca3dull, 0xc45a9a5b2f8fb97bull, 0xfe8946a924933545ull, 0x2af997a27369091cull,
        },
        {
            0xaa62c88e0b294011ull, 0x058eb9d810ce9f74ull, 0xb3cb23eced349ae4ull, 0xa3648177a77b4a84ull,
            0x43153d905992d95dull, 0xf4e2a97cda44aa4bull, 0x5baa2702b908682full, 0x082923bdf4f750d1ull,
        },
        {
            0x98ae09a325893803ull, 0xf8a6475077968838ull, 0xceb0735bf00b2c5full, 0x0a1a5d953888e072ull,
            0x2fcb190489f94475ull, 0xb5be06270dec69fcull, 0x739cb934b09acf8bull, 0x537750b75ec7f25bull,
        },
        {
            0xe9dd318bae1f3961ull, 0xf7462137299efe1aull, 0xb1f6b8eee9adb940ull, 0xbdebcc8a809dfe6bull,
            0x40fc1f791b178113ull, 0x3ac1c3362d014864ull, 0x9a016184bdb8aebaull, 0x95f2394459fbc25eull,
        },
    },
};

__constant__ const Poseidon2<Goldilocks, 12>::Constants GOLDILOCKS_POSEIDON2_WIDTH_12 = {
    {
        {
            0x13dcf33aba214f46ull, 0x30b3b654a1da6d83ull, 0x1fc634ada6159b56ull, 0x937459964dc03466ull,
            0xedd2ef2ca7949924ull, 0xede9affde0e22f68ull, 0x8515b9d6bac9282dull, 0x6b5c07b4e9e900d8ull,
            0x1ec66368838c8a08ull, 0x9042367d80d1fbabull, 0x400283564a3c3799ull, 0x4a00be0466bca75eull,
        },
        {
            0x7913beee58e3817full, 0xf545e88532237d90ull, 0x22f8cb8736042005ull, 0x6f04990e247a2623ull,
            0xfe22e87ba37c38cdull, 0xd20e32c85ffe2815ull, 0x117227674048fe73ull, 0x4e9fb7ea98a6b145ull,
            0xe0866c232b8af08bull, 0x00bbc77916884964ull, 0x7031c0fb990d7116ull, 0x240a9e87cf35108full,
        },
        {
            0x2e6363a5a12244b3ull, 0x5e1c3787d1b5011cull, 0x4132660e2a196e8bull, 0x3a013b648d3d4327ull,
            0xf79839f49888ea43ull, 0xfe85658ebafe1439ull, 0xb6889825a14240bdull, 0x578453605541382bull,
            0x4508cda8f6b63ce9ull, 0x9c3ef35848684c91ull, 0x0812bde23c87178cull, 0xfe49638f7f722c14ull,
        },
        {
            0x8e3f688ce885cbf5ull, 0xb8e110acf746a87dull, 0xb4b2e8973a6dabefull, 0x9e714c5da3d462ecull,
            0x6438f9033d3d0c15ull, 0x24312f7cf1a27199ull, 0x23f843bb47acbf71ull, 0x9183f11a34be9f01ull,
            0x839062fbb9d45dbfull, 0x24b56e7e6c2e43faull, 0xe1683da61c962a72ull, 0xa95c63971a19bfa7ull,
        },
    },
    {
        0x4adf842aa75d4316ull, 0xf8fbb871aa4ab4ebull, 0x68e85b6eb2dd6aebull, 0x07a0b06b2d270380ull,
        0xd94e0228bd282de4ull, 0x8bdd91d3250c5278ull, 0x209c68b88bba778full, 0xb5e18cdab77f3877ull,
        0xb296a3e808da93faull, 0x8370ecbda11a327eull, 0x3f9075283775dad8ull, 0xb78095bb23c6aa84ull,
        0x3f36b9fe72ad4e5full, 0x69bc96780b10b553ull, 0x3f1d341f2eb7b881ull, 0x4e939e9815838818ull,
        0xda366b3ae2a31604ull, 0xbc89db1e7287d509ull, 0x6102f411f9ef5659ull, 0x58725c5e7ac1f0abull,
        0x0df5856c798883e7ull, 0xf7bb62a8da4c961bull,
    },
    {
        {
            0xc68be7c94882a24dull, 0xaf996d5d5cdaedd9ull, 0x9717f025e7daf6a5ull, 0x6436679e6e7216f4ull,
            0x8a223d99047af267ull, 0xbb512e35a133ba9aull, 0xfbbf44097671aa03ull, 0xf04058ebf6811e61ull,
            0x5cca84703fac7ffbull, 0x9b55c7945de6469full, 0x8e05bf09808e934full, 0x2ea900de876307d7ull,
        },
        {
            0x7748fff2b38dfb89ull, 0x6b99a676dd3b5d81ull, 0xac4bb7c627cf7c13ull, 0xadb6ebe5e9e2f5baull,
            0x2d33378cafa24ae3ull, 0x1e5b73807543f8c2ull, 0x09208814bfebb10full, 0x782e64b6bb5b93ddull,
            0xadd5a48eac90b50full, 0xadd4c54c736ea4b1ull, 0xd58dbb86ed817fd8ull, 0x6d5ed1a533f34dddull,
        },
        {
            0x28686aa3e36b7cb9ull, 0x591abd3476689f36ull, 0x047d766678f13875ull, 0xa2a11112625f5b49ull,
            0x21fd10a3f8304958ull, 0xf9b40711443b0280ull, 0xd2697eb8b2bde88eull, 0x3493790b51731b3full,
            0x11caf9dd73764023ull, 0x7acfb8f72878164eull, 0x744ec4db23cefc26ull, 0x1e00e58f422c6340ull,
        },
        {
            0x21dd28d906a62ddaull, 0xf32a46ab5f465b5full, 0xbfce13201f3f7e6bull, 0xf30d2e7adb5304e2ull,
            0xecdf4ee4abad48e9ull, 0xf94e82182d395019ull, 0x4ee52e3744d887c5ull, 0xa1341c7cac0083b2ull,
            0x2302fb26c30c834aull, 0xaea3c587273bf7d3ull, 0xf798e24961823ec7ull, 0x962deba3e9a2cd94ull,
        },
    },
};

// The default constants of an instance, for kernels that are templates over it.
template <class F, int WIDTH>
__device__ __forceinline__ const typename Poseidon2<F, WIDTH>::Constants& poseidon2_constants();

template <>
__device__ __forceinline__ const Poseidon2<KoalaBear, 16>::Constants& poseidon2_constants<KoalaBear, 16>() {
    return KOALA_BEAR_POSEIDON2_WIDTH_16;
}
template <>
__device__ __forceinline__ const Poseidon2<KoalaBear, 24>::Constants& poseidon2_constants<KoalaBear, 24>() {
    return KOALA_BEAR_POSEIDON2_WIDTH_24;
}
template <>
__device__ __forceinline__ const Poseidon2<BabyBear, 16>::Constants& poseidon2_constants<BabyBear, 16>() {
    return BABY_BEAR_POSEIDON2_WIDTH_16;
}
template <>
__device__ __forceinline__ const Poseidon2<BabyBear, 24>::Constants& poseidon2_constants<BabyBear, 24>() {
    return BABY_BEAR_POSEIDON2_WIDTH_24;
}
template <>
__device__ __forceinline__ const Poseidon2<Goldilocks, 8>::Constants& poseidon2_constants<Goldilocks, 8>() {
    return GOLDILOCKS_POSEIDON2_WIDTH_8;
}
template <>
__device__ __forceinline__ const Poseidon2<Goldilocks, 12>::Constants& poseidon2_constants<Goldilocks, 12>() {
    return GOLDILOCKS_POSEIDON2_WIDTH_12;
}

// The permutation, the sponge and the compression with the default constants.
template <class F, int WIDTH, int RATE, int OUT>
struct DefaultPoseidon2 : Poseidon2Sponge<F, WIDTH, RATE, OUT> {
    typedef Poseidon2Sponge<F, WIDTH, RATE, OUT> Sponge;

    static __device__ __forceinline__ void permute(F (&s)[WIDTH]) {
        Sponge::Permutation::permute(s, poseidon2_constants<F, WIDTH>());
    }
    template <class Row>
    __device__ __forceinline__ void absorb_whole(const Row& row, u32 count) {
        absorb(row, count);
    }
    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count) {
        Sponge::absorb(row, count, poseidon2_constants<F, WIDTH>());
    }
    static __device__ __forceinline__ void compress(const F (&left)[OUT], const F (&right)[OUT],
                                                    F (&digest)[OUT]) {
        Sponge::compress(left, right, digest, poseidon2_constants<F, WIDTH>());
    }
};

// The instances of Plonky3's examples. Those of width 24 and 12 hash leaves; their trees compress with the
// narrower permutation of the same field.
typedef DefaultPoseidon2<KoalaBear, 16, 8, 8> KoalaBearPoseidon2Width16;
typedef DefaultPoseidon2<KoalaBear, 24, 16, 8> KoalaBearPoseidon2Width24;
typedef DefaultPoseidon2<BabyBear, 16, 8, 8> BabyBearPoseidon2Width16;
typedef DefaultPoseidon2<BabyBear, 24, 16, 8> BabyBearPoseidon2Width24;
typedef DefaultPoseidon2<Goldilocks, 8, 4, 4> GoldilocksPoseidon2Width8;
typedef DefaultPoseidon2<Goldilocks, 12, 8, 4> GoldilocksPoseidon2Width12;

// RISC Zero's hash: Plonky3's round constants for BabyBear of width 24, RISC Zero's matrices. Elements overwrite
// the first 16 of the state, and zeros fill the rest of a partial block; an empty row is one block of zeros. A pair
// of digests is one block.
struct RiscZeroPoseidon2 {
    static constexpr int WIDTH = 24, RATE = 16, DIGEST_WORDS = 8;
    typedef BabyBear Word;
    typedef Poseidon2<BabyBear, WIDTH, RiscZeroMatrices> Permutation;
    BabyBear s[WIDTH];

    static __device__ __forceinline__ const Permutation::Constants& constants() {
        // The constants have the same layout, whatever the matrices.
        return BABY_BEAR_POSEIDON2_WIDTH_24;
    }

    __device__ __forceinline__ void init() {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) s[i] = BabyBear::zero();
    }

    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count) {
        u32 first = 0;
        do {
#pragma unroll
            for (u32 j = 0; j < RATE; ++j) s[j] = first + j < count ? row(first + j) : BabyBear::zero();
            Permutation::permute(s, constants());
            first += RATE;
        } while (first < count);
    }

    __device__ __forceinline__ void finish(BabyBear (&digest)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) digest[i] = s[i];
    }

    static __device__ __forceinline__ void compress(const BabyBear (&left)[8], const BabyBear (&right)[8],
                                                    BabyBear (&digest)[8]) {
        RiscZeroPoseidon2 hash;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            hash.s[i] = left[i];
            hash.s[8 + i] = right[i];
            hash.s[16 + i] = BabyBear::zero();
        }
        Permutation::permute(hash.s, constants());
        hash.finish(digest);
    }
};
