"""M2M-100 (Fan et al. 2020), SMaLL-100 (Mohammadshahi et al. 2022) and NLLB-200 (NLLB Team 2022) in transformers: one
architecture, `m2m_100`, with two vocabularies and two framings.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.errors import TokenizerError
from dragoman.store.foreign import TOKENIZER, ForeignModel, read_architecture, read_table, tokenizer_settings
from dragoman.store.hub import SMALL100
from dragoman.store.multilingual import MultilingualArchitecture, fairseq_table, read_multilingual, tags_of
from dragoman.tokenizing.special_tokens import PREFIXED_FRAMING, SMALL100_FRAMING

VOCABULARY = "vocab.json"
_M2M_100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no nso oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_NLLB_200 = (
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn"
)
"""The languages in the order of their symbols, `__en__` and `eng_Latn`."""


def read_m2m100(
    folder: Path, languages: Sequence[str] | None = None, texts: Iterable[str] | None = None
) -> ForeignModel:
    """Read a folder of one of the three, if our model can hold its content; `languages` and `texts` as for `convert`.

    Its sinusoids begin at position 2, and the last of their half = d_model / 2 frequencies is 1 / 10,000, where the
    paper's would be the next one.
    """
    architecture, framing = read_architecture(folder, MultilingualArchitecture), PREFIXED_FRAMING
    tokenizer = str(tokenizer_settings(folder).get("tokenizer_class") or "")
    if tokenizer.startswith("Nllb") or not (tokenizer or (folder / VOCABULARY).is_file()):
        table, tags = fairseq_table(folder), tags_of(_NLLB_200)
    else:
        table, tags = read_table(folder / VOCABULARY, architecture.vocab_size), tags_of(_M2M_100)
        if _is_small100(folder, tokenizer, architecture.decoder_layers):
            framing = SMALL100_FRAMING
    half = architecture.d_model // 2
    positions = {"position_offset": 2, "position_base": 10_000.0 ** (half / (half - 1))}
    return read_multilingual(folder, architecture, table, tags, languages, texts, framing, **positions)


def _is_small100(folder: Path, tokenizer: str, decoder_layers: int) -> bool:
    """Return True for SMaLL-100, which differs from M2M-100 only in its tokenizer.

    Raises:
        TokenizerError: the folder says neither.
    """
    if (folder / SMALL100).is_file() or tokenizer.startswith("SMALL100"):
        return True
    if decoder_layers == 3 and not tokenizer:
        raise TokenizerError(
            f"{folder} may be SMaLL-100, whose decoder has 3 layers too, or M2M-100; write its tokenizer into "
            f'{TOKENIZER}: {{"tokenizer_class": "SMALL100Tokenizer"}} or "M2M100Tokenizer"'
        )
    return False
